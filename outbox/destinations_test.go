package outbox_test

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/outbox/outboxhttp"
	"github.com/txwork/txwork/workqueue"
)

// An httpReceiver is a destination: an address on loopback at which an HTTP server comes and goes.
type httpReceiver struct {
	t       testing.TB
	address string
	end     func() // of what is at the address

	mu    sync.Mutex
	times map[string]int   // requests that were answered, by the id of their message
	keys  map[string][]int // numbers, in the order in which they came first
}

func newHTTPReceiver(t testing.TB) *httpReceiver {
	r := &httpReceiver{t: t, address: "127.0.0.1:0", times: map[string]int{}, keys: map[string][]int{}}
	r.isUp()
	t.Cleanup(func() { r.end() })
	return r
}

func (r *httpReceiver) listen() net.Listener {
	var l net.Listener
	var err error
	if !pgtest.Await(patience, func() bool { l, err = net.Listen("tcp", r.address); return err == nil }) {
		r.t.Fatal(err)
	}
	r.address = l.Addr().String()
	return l
}

func (r *httpReceiver) serve(answer http.HandlerFunc) {
	s, l := &http.Server{Handler: answer}, r.listen()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	r.end = func() {
		_ = s.Close()
		<-ended
		r.end = func() {}
	}
}

// isUp has the receiver take all messages, isSlow after a while.
func (r *httpReceiver) isUp() { r.serve(r.take) }

func (r *httpReceiver) isSlow() {
	r.serve(func(w http.ResponseWriter, q *http.Request) { rest(20 * time.Millisecond); r.take(w, q) })
}

// isAway has nobody listen at the address.
func (r *httpReceiver) isAway() { r.end() }

// isHalfOpen has connections accepted, by the kernel, and nobody read from them.
func (r *httpReceiver) isHalfOpen() {
	l := r.listen()
	r.end = func() { _ = l.Close(); r.end = func() {} }
}

// isTooSlow has the receiver read each request and not answer it as long as its sender waits.
func (r *httpReceiver) isTooSlow() {
	r.serve(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body) // as long as it is not read, nobody notices that the sender has gone
		<-q.Context().Done()
	})
}

func (r *httpReceiver) take(_ http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id, key := q.Header.Get("Idempotency-Key"), q.Header.Get("Txwork-Key")
	if r.times[id]++; r.times[id] > 1 || key == "" {
		return
	}
	n, _ := strconv.Atoi(string(body))
	r.keys[key] = append(r.keys[key], n)
}

// has is how many messages it has, how many came more than once, and how many not in the order of their key.
func (r *httpReceiver) has() (messages, repeated, out int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.times {
		repeated += min(n-1, 1)
	}
	for _, numbers := range r.keys {
		for i, n := range numbers {
			if n != i {
				out++
			}
		}
	}
	return len(r.times), repeated, out
}

// A posted is an outbox whose messages two relays post to a receiver. Another destination, which is up, gets as many.
type posted struct {
	*fixture
	*httpReceiver
	isLog     bool
	lines     lines
	impatient atomic.Bool  // requests have little time, so that a test does not wait for its end
	tries     atomic.Int64 // of the receiver that found it unavailable
	trying    atomic.Int64 // handlers that are at it
	others    atomic.Int64 // messages at the other destination
	sent      int
}

// attempts are those of a message, which would be used up within 30 ms. A message of a log has one, and is then parked.
const attempts = 3

func newPosted(t *testing.T, storage outbox.Storage) *posted {
	p := &posted{httpReceiver: newHTTPReceiver(t), isLog: storage == outbox.Log}
	o := workqueue.WorkerOptions{Concurrency: 4, PollInterval: 50 * time.Millisecond}
	other := func(context.Context, *outbox.Delivery) error { p.others.Add(1); return nil }
	post := p.posts()
	if p.isLog {
		p.fixture = newLog(t, func(o *outbox.Options) {
			o.Ordering, o.Telemetry.Logger = outbox.PerKey, slog.New(&p.lines)
		})
		p.subscribe("sick", 2)
		p.subscribe("well", 1)
		p.watch("AFTER UPDATE ON %_position", "NEW.subscription, (NEW.rest).since, (NEW.rest).length, "+
			"(NEW.rest).until, NEW.locked_until IS NOT NULL")
		for range 2 {
			p.subscriber("sick", o, func(r *outbox.Relay) { r.HandleAll(post) })
		}
		p.subscriber("well", o, func(r *outbox.Relay) { r.HandleAll(other) })
		return p
	}
	p.fixture = newOutbox(t, func(o *outbox.Options) {
		o.Ordering, o.Telemetry.Logger, o.MaxAttempts = outbox.PerKey, slog.New(&p.lines), attempts
		o.Retry = workqueue.Retry{Growth: workqueue.Constant, Base: 10 * time.Millisecond, Cap: 10 * time.Millisecond}
	})
	p.watch("AFTER INSERT OR UPDATE ON %_topic", "NEW.topic, NEW.unavailable_since, NEW.rest, NEW.rests_until, "+
		"NEW.probe IS NOT NULL")
	// What waits is set aside once, by a claim that may come after the first probe.
	p.watch("AFTER UPDATE ON %", "CASE WHEN NEW.status = 0 AND OLD.status = 0 THEN 'aside' ELSE NEW.topic END, "+
		"NULL, NULL, NULL, NULL")
	for range 2 {
		p.relay(o, func(r *outbox.Relay) { r.Handle("sick", post); r.Handle("well", other) })
	}
	return p
}

// posts is the handler of the destination.
func (p *posted) posts() outbox.Handler {
	t := p.httpReceiver.t
	poster := func(timeout time.Duration) *outboxhttp.Poster {
		poster, err := outboxhttp.NewPoster(outboxhttp.Options{URL: "http://" + p.address, Timeout: timeout,
			NoAnswer: outboxhttp.Unavailable})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(poster.Close)
		return poster
	}
	patient, impatient := poster(patience), poster(300*time.Millisecond)
	return func(ctx context.Context, m *outbox.Delivery) error {
		p.trying.Add(1)
		defer p.trying.Add(-1)
		by := patient
		if p.impatient.Load() {
			by = impatient
		}
		err := by.Deliver(ctx, m)
		if err != nil {
			p.tries.Add(1)
		}
		return err
	}
}

// on is a statement that names tables of the outbox.
func (p *posted) on(sql string) string { return strings.ReplaceAll(sql, "%", p.table) }

// watch records what is written to a table.
func (p *posted) watch(when, what string) {
	p.Helper()
	p.exec(p.on(`CREATE TABLE IF NOT EXISTS %_noted (n bigserial, whose text, since timestamptz, length interval,
		until timestamptz, probes boolean, told timestamptz DEFAULT statement_timestamp(),
		at timestamptz DEFAULT clock_timestamp())`))
	name := p.on("%_noted_") + strconv.Itoa(len(when))
	p.exec("CREATE FUNCTION " + name + "() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO " + p.on("%_noted") +
		" (whose, since, length, until, probes) SELECT " + what + "; RETURN NULL; END $$")
	p.exec(p.on("CREATE TRIGGER seen "+when) + " FOR EACH ROW " +
		"WHEN (coalesce(current_setting('test.passes', true), '') = '') EXECUTE FUNCTION " + name + "()")
}

// written is how many updates were made for the destination so far.
func (p *posted) written() int {
	p.Helper()
	return p.count(p.on("SELECT count(*) FROM %_noted WHERE whose = 'sick'"))
}

// rests are the lengths of all rests so far in seconds, and of how many outages they are. They end at most a fifth
// earlier.
func (p *posted) rests() (seconds []float64, outages int) {
	p.Helper()
	wrong := 0
	err := p.Pool.QueryRow(p.Context(), p.on(`SELECT
			coalesce(array_agg(extract(epoch FROM length)::float8 ORDER BY n), '{}'), count(DISTINCT since),
			count(*) FILTER (WHERE until > at + length OR until < told + 0.8 * length)
		FROM %_noted WHERE whose = 'sick' AND since IS NOT NULL AND NOT probes`)).Scan(&seconds, &outages, &wrong)
	if err != nil {
		p.Fatal(err)
	}
	if wrong > 0 {
		p.Errorf("%d rests are not as long as they say, less up to a fifth", wrong)
	}
	return seconds, outages
}

// claimed is how many claims of a probe were made so far.
func (p *posted) claimed() int {
	p.Helper()
	return p.count(p.on("SELECT count(*) FROM %_noted WHERE whose = 'sick' AND probes"))
}

// passes ends the rest of the destination now, if nothing probes it.
func (p *posted) passes() {
	p.Helper()
	statement := `UPDATE %_topic SET rests_until = clock_timestamp() WHERE topic = 'sick' AND probe IS NULL
		AND rests_until > clock_timestamp()`
	if p.isLog {
		statement = `UPDATE %_position SET rest.until = clock_timestamp() WHERE subscription = 'sick'
			AND locked_until IS NULL AND (rest).until > clock_timestamp()`
	}
	p.inTx(func(tx pgx.Tx) error {
		_, err := tx.Exec(p.Context(), "SET LOCAL test.passes = 'yes'")
		if err == nil {
			_, err = tx.Exec(p.Context(), p.on(statement))
		}
		return err
	})
}

// inHand is how many messages, or pages of a log, relays have for the destination, and how many handlers are at it:
// those of a log go on when another one has given their page back.
func (p *posted) inHand() int {
	p.Helper()
	held := p.on("SELECT count(*) FROM % WHERE topic = 'sick' AND status = 1")
	if p.isLog {
		held = p.on("SELECT count(*) FROM %_position WHERE subscription = 'sick' AND page IS NOT NULL")
	}
	return p.count(held) + int(p.trying.Load())
}

// awaitClaims waits for claims that are under way, since one that began before the destination rests does not know it.
func (p *posted) awaitClaims() {
	p.Helper()
	claimed := "%"
	if p.isLog {
		claimed = "%_position"
	}
	p.awaitWriters(p.on(claimed))
}

// used is how many messages have used up an attempt without being delivered.
func (p *posted) used() int {
	p.Helper()
	if p.isLog {
		return p.parked("sick", "true")
	}
	return p.count(p.on("SELECT count(*) FROM % WHERE topic = 'sick' AND (status > 2 OR attempts > least(status, 1))"))
}

// send sends messages to both destinations, most of them with one of five keys.
func (p *posted) send(n int) {
	p.Helper()
	msgs := make([]outbox.Message, n)
	for i := range msgs {
		number, key := (p.sent+i)/6, (p.sent+i)%6
		msgs[i] = outbox.Message{Topic: "sick", Payload: []byte(strconv.Itoa(number))}
		if key < 5 {
			msgs[i].Key = "k" + strconv.Itoa(key)
		}
	}
	p.sent += n
	if !p.isLog {
		msgs = append(msgs, messages("well", n)...)
	}
	p.enqueue(msgs...)
}

// arrives waits until everything has arrived, while time passes if it is told so.
func (p *posted) arrives(passing bool) {
	p.Helper()
	p.until("everything is delivered", func() bool {
		if passing {
			p.passes()
		}
		n, _, _ := p.has()
		return n == p.sent && p.inHand() == 0
	})
}

// noBeat is about what the schemas of these tests lack.
const noBeat = "the process does not say that it runs, so nothing names it as the holder of a row"

// told checks that an outage is two lines of the logs of all processes together, and nothing else is said.
func (p *posted) told(outages int) {
	p.Helper()
	began := restsLine
	if p.isLog {
		began = subscriptionRests
	}
	p.until("the end of an outage is told", func() bool { return p.lines.count(backLine) >= outages })
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	if p.lines.n[began] != outages || p.lines.n[backLine] != outages || p.lines.loud-p.lines.n[noBeat] != 2*outages {
		p.Errorf("%d outages are told as %v, want two lines each", outages, p.lines.n)
	}
}

// A destination that is away, that accepts connections and does not answer, or that takes longer than its relays wait,
// for longer than all attempts of its messages take: not one attempt is used up, one message probes it, after rests of
// 0.5 to 10 s, and everything else goes on. From the next probe on everything is delivered, in the order of its keys.
func TestADestinationThatIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		storage outbox.Storage
		begins  func(*httpReceiver)
		repeats bool // the receiver may have got a message whose sender did not wait
		updates int  // of rows, by a probe: its claim, and its settle
	}{
		"rows, away":      {outbox.Rows, (*httpReceiver).isAway, false, 4},
		"rows, half open": {outbox.Rows, (*httpReceiver).isHalfOpen, false, 4},
		"rows, too slow":  {outbox.Rows, (*httpReceiver).isTooSlow, true, 4},
		"log, away":       {outbox.Log, (*httpReceiver).isAway, false, 2},
		"log, half open":  {outbox.Log, (*httpReceiver).isHalfOpen, false, 2},
		"log, too slow":   {outbox.Log, (*httpReceiver).isTooSlow, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPosted(t, c.storage)
			p.send(60)
			p.arrives(false)
			p.impatient.Store(true)
			p.isAway()
			c.begins(p.httpReceiver)
			p.send(60)
			p.until("it rests", func() bool { _, outages := p.rests(); return outages == 1 })
			p.awaitClaims()
			p.until("nothing is in hand", func() bool { return p.inHand() == 0 })
			tried, claimed, written := p.tries.Load(), p.claimed(), p.written()
			p.until("probes", func() bool { p.passes(); rests, _ := p.rests(); return len(rests) >= 8 })
			p.until("other destinations go on", func() bool { return p.others.Load() == int64(p.sent) })
			p.until("nothing is in hand", func() bool { return p.inHand() == 0 })
			probes := p.tries.Load() - tried
			if n := p.written() - written; int64(n) > int64(c.updates)*(probes+1) { // one may have begun before
				t.Errorf("%d updates for %d probes, want %d for each", n, probes, c.updates)
			}
			// A settle that finds the state locked, as by a claim that looks, writes none: the next claim probes again.
			if n := p.claimed() - claimed; int(probes) > n+1 {
				t.Errorf("%d probes for %d claims of one", probes, n)
			}
			rests, outages := p.rests()
			if want := []float64{0.5, 1, 2, 4, 8, 10, 10, 10}; !slices.Equal(rests[:8], want) || outages != 1 ||
				probes <= attempts {
				t.Errorf("%d probes, rests of %v seconds in %d outages, want %v", probes, rests, outages, want)
			}
			if n := p.used(); n > 0 {
				t.Errorf("%d messages have used up an attempt", n)
			}

			p.isAway()
			p.until("nothing is in hand", func() bool { return p.inHand() == 0 })
			p.impatient.Store(false)
			p.isUp()
			before, _ := p.rests()
			p.arrives(true)
			if rests, _ := p.rests(); len(rests) > len(before)+1 { // a probe may have been under way
				t.Errorf("%d probes found it unavailable although it was back", len(rests)-len(before))
			}
			if _, repeated, out := p.has(); repeated > 0 && !c.repeats || out > 0 || p.used() > 0 {
				t.Errorf("%d messages came repeatedly, %d out of order, %d used up attempts", repeated, out, p.used())
			}
			p.told(1)
		})
	}
}

// A destination that comes and goes uses up no attempt either, and each of its outages begins anew.
func TestADestinationThatFlaps(t *testing.T) {
	t.Parallel()
	for name, storage := range map[string]outbox.Storage{"rows": outbox.Rows, "log": outbox.Log} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPosted(t, storage)
			p.send(60)
			for range 10 {
				rest(rand.N(50 * time.Millisecond)) // while it has messages
				p.isAway()
				p.send(30)
				tried := p.tries.Load()
				p.until("it is tried", func() bool { p.passes(); return p.tries.Load() > tried })
				p.isUp()
				p.passes()
			}
			p.arrives(true)
			p.until("other destinations go on", func() bool { return p.others.Load() == int64(p.sent) })
			rests, outages := p.rests()
			begun := 0
			for _, seconds := range rests {
				if seconds == 0.5 {
					begun++
				}
			}
			if outages == 0 || begun != outages {
				t.Errorf("%d outages, of which %d begin with half a second", outages, begun)
			}
			// What broke off while the receiver answered it came twice.
			if _, _, out := p.has(); out > 0 || p.used() > 0 {
				t.Errorf("%d messages out of order, %d used up attempts", out, p.used())
			}
			p.told(outages)
		})
	}
}

// A destination that is slow, and answers, is no destination that is unavailable, and holds up no other one.
func TestADestinationThatIsSlow(t *testing.T) {
	t.Parallel()
	for name, storage := range map[string]outbox.Storage{"rows": outbox.Rows, "log": outbox.Log} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPosted(t, storage)
			p.isAway()
			p.isSlow()
			p.send(120)
			p.until("other destinations", func() bool { return p.others.Load() == int64(p.sent) })
			p.arrives(false)
			if _, repeated, out := p.has(); repeated > 0 || out > 0 || p.used() > 0 {
				t.Errorf("%d messages came repeatedly, %d out of order, %d used up attempts", repeated, out, p.used())
			}
			if rests, _ := p.rests(); len(rests) > 0 {
				t.Errorf("it rests for %v seconds", rests)
			}
			p.told(0)
		})
	}
}
