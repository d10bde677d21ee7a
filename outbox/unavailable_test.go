package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

const away = "dial tcp: connection refused"

// A held claim is what a worker has in hand.
type heldClaim struct {
	token uuid.UUID
	ids   []uuid.UUID
}

func (f *fixture) claim(limit int) heldClaim {
	f.Helper()
	token := workqueue.NewOwnerToken()
	rows, err := f.box.Table().On(f.Pool).Claim(f.Context(), token, time.Minute, limit)
	if err != nil {
		f.Fatal(err)
	}
	c := heldClaim{token: token}
	for _, row := range rows {
		c.ids = append(c.ids, row.ID)
	}
	return c
}

func (f *fixture) unavailable(c heldClaim, ids ...uuid.UUID) {
	f.Helper()
	if _, err := f.box.Table().On(f.Pool).Unavailable(f.Context(), c.token, ids, away); err != nil {
		f.Fatal(err)
	}
}

// A restingTopic is the state of a topic whose destination is unavailable.
type restingTopic struct {
	rest, left time.Duration
	cause      string
	version    string
}

// resting reads the state of a topic; false: it does not rest.
func (f *fixture) resting(topic string) (s restingTopic, is bool) {
	f.Helper()
	var rest, left float64
	err := f.Pool.QueryRow(f.Context(), `SELECT coalesce(extract(epoch FROM rest), 0)::float8,
		coalesce(extract(epoch FROM rests_until - clock_timestamp()), 0)::float8, coalesce(cause, ''), ctid::text,
		unavailable_since IS NOT NULL FROM `+f.table+`_topic WHERE topic = $1`, topic).Scan(&rest, &left, &s.cause,
		&s.version, &is)
	if err != nil {
		f.Fatal(err)
	}
	s.rest, s.left = time.Duration(rest*float64(time.Second)), time.Duration(left*float64(time.Second))
	return s, is
}

// rested ends the rest of a topic now.
func (f *fixture) rested(topic string) {
	f.Helper()
	f.exec("UPDATE "+f.table+"_topic SET rests_until = clock_timestamp() - interval '1 ms' WHERE topic = $1 AND "+
		"unavailable_since IS NOT NULL", topic)
}

func (f *fixture) topicOf(id uuid.UUID) string { return f.row(id).Topic }

// A topic whose destination is unavailable rests. Its messages keep their attempts, their place and their order, and
// are probed one by one; the rest doubles up to ten seconds. Other topics go on.
func TestATopicRestsWhileItsDestinationIsUnavailable(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("sick", 5)
	hand := f.claim(2)
	before := f.count("SELECT count(*) FROM " + f.table + " WHERE due_at < now() - interval '59 minutes'")
	f.unavailable(hand, hand.ids[0])
	s, is := f.resting("sick")
	if !is || s.rest != 500*time.Millisecond || s.left > s.rest || s.cause != away {
		t.Fatalf("the topic rests: %v, %+v", is, s)
	}
	f.unavailable(hand, hand.ids[1]) // it was in hand and says nothing new
	if again, _ := f.resting("sick"); again.version != s.version {
		t.Error("a second message wrote the state of the topic")
	}
	for _, id := range hand.ids {
		if r := f.row(id); r.Status != workqueue.Ready || r.Attempts != 0 || len(r.LastError) <= len(away) {
			t.Errorf("put back as %+v", r)
		}
	}
	f.sendMany("well", 3)
	f.exec("UPDATE " + f.table + "_topic SET rests_until = now() + interval '1 hour'") // this test is slow
	if c := f.claim(10); len(c.ids) != 3 || f.topicOf(c.ids[0]) != "well" {
		t.Errorf("claimed %d rows during the rest, want 3 of the other topic", len(c.ids))
	}

	want := 500 * time.Millisecond
	for range 7 {
		f.rested("sick")
		probe := f.claim(10)
		if len(probe.ids) != 1 || probe.ids[0] != hand.ids[0] {
			t.Fatalf("probes are %v, want the first message %v", probe.ids, hand.ids[0])
		}
		if c := f.claim(10); len(c.ids) != 0 {
			t.Fatalf("%d rows were claimed beside a probe", len(c.ids))
		}
		f.unavailable(probe, probe.ids...)
		want = min(2*want, 10*time.Second)
		if s, is := f.resting("sick"); !is || s.rest != want || s.left > want || s.left < want*7/10-2*time.Second {
			t.Errorf("rests: %v, %+v, want %v", is, s, want)
		}
	}
	f.rested("sick")
	probe := f.claim(10)
	if _, err := f.box.Table().On(f.Pool).Ack(t.Context(), probe.token, probe.ids); err != nil {
		t.Fatal(err)
	}
	rest := f.claim(10)
	if s, is := f.resting("sick"); is {
		t.Errorf("the topic rests although a probe was delivered: %+v", s)
	}
	if len(rest.ids) != 4 || rest.ids[0] != hand.ids[1] {
		t.Errorf("claimed %v, want the other 4 messages in their order", rest.ids)
	}
	if n := f.count("SELECT max(attempts) FROM " + f.table); n != 1 {
		t.Errorf("%d attempts", n)
	}
	if n := f.count("SELECT count(*) FROM " + f.table + " WHERE due_at < now() - interval '59 minutes'"); n != before+3 {
		t.Errorf("%d rows kept their due time, want %d", n, before+3)
	}
}

// What became of the message that was the probe says whether the topic opens, whoever settled it, and whatever became
// of who claimed it.
func TestWhatAProbeHasFoundOut(t *testing.T) {
	t.Parallel()
	const (
		opens  = "opens"
		probes = "another probe"
		waits  = "waits"
	)
	settle := func(call string) func(*fixture, heldClaim) {
		return func(f *fixture, c heldClaim) {
			f.exec("SELECT FROM "+f.table+"_"+call, c.token, c.ids)
		}
	}
	for name, c := range map[string]struct {
		ends func(*fixture, heldClaim)
		want string
	}{
		"ack":     {settle("ack($1, $2)"), opens},
		"fail":    {settle("fail($1, $2, 'poison')"), opens},
		"retry":   {settle("retry($1, $2, '1 hour', 'poison')"), opens},
		"snooze":  {settle("snooze($1, $2, '1 hour')"), probes},
		"release": {settle("release($1, $2)"), probes},
		"extend":  {settle("extend($1, $2, '1 minute')"), waits},
		"runs":    {func(*fixture, heldClaim) {}, waits},
		"lapsed": {func(f *fixture, c heldClaim) {
			f.exec("UPDATE "+f.table+" SET locked_until = now() - interval '1 s' WHERE id = $1", c.ids[0])
		}, probes},
		"reaped": {func(f *fixture, c heldClaim) {
			f.exec("UPDATE "+f.table+" SET locked_until = now() - interval '1 s' WHERE id = $1", c.ids[0])
			f.exec("SELECT FROM " + f.table + "_reap_expired()")
		}, probes},
		"claimed by others since": {func(f *fixture, c heldClaim) {
			settle("release($1, $2)")(f, c)
			f.exec("UPDATE "+f.table+" SET status = 1, owner_token = gen_random_uuid(), locked_until = now() + "+
				"interval '1 hour' WHERE id = $1", c.ids[0])
		}, probes},
		"deleted": {func(f *fixture, c heldClaim) {
			f.exec("DELETE FROM "+f.table+" WHERE id = $1", c.ids[0])
		}, opens},
		"paused": {func(f *fixture, c heldClaim) {
			settle("ack($1, $2)")(f, c)
			f.pause("sick")
		}, waits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			f.sendMany("sick", 5)
			hand := f.claim(5)
			f.unavailable(hand, hand.ids...)
			f.rested("sick")
			probe := f.claim(5)
			if len(probe.ids) != 1 {
				t.Fatalf("%d probes", len(probe.ids))
			}
			c.ends(f, probe)
			n := len(f.claim(3).ids)
			_, rests := f.resting("sick")
			if got := map[bool]string{true: waits, false: opens}[rests]; rests && n == 1 {
				if c.want != probes {
					t.Errorf("another probe, want: %s", c.want)
				}
			} else if got != c.want || !rests && n != 3 || rests && n != 0 {
				t.Errorf("%s, %d rows claimed, want: %s", got, n, c.want)
			}
		})
	}
}

// A pause and a rest are independent of each other.
func TestAPauseAndARest(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("sick", 3)
	hand := f.claim(1)
	f.pause("sick")
	f.unavailable(hand, hand.ids...)
	f.rested("sick")
	if c := f.claim(5); len(c.ids) != 0 {
		t.Errorf("%d rows of a paused topic were claimed as a probe", len(c.ids))
	}
	f.resume("sick")
	if _, rests := f.resting("sick"); !rests {
		t.Error("a resume ended the rest")
	}
	probe := f.claim(5)
	if len(probe.ids) != 1 {
		t.Fatalf("%d probes after the resume", len(probe.ids))
	}
	f.pause("sick")
	f.unavailable(probe, probe.ids...)
	if list := f.topics(); len(list) != 1 || !list[0].Paused || list[0].UnavailableSince.IsZero() ||
		list[0].RestsUntil.IsZero() || list[0].Cause != away {
		t.Errorf("the topics are %+v", list)
	}
}

// A probe is found among messages that no claim has set aside yet.
func TestAProbeThatArrivesDuringTheRest(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("sick", 1)
	hand := f.claim(1)
	f.unavailable(hand, hand.ids...)
	f.exec("DELETE FROM " + f.table)
	f.rested("sick")
	if c := f.claim(5); len(c.ids) != 0 {
		t.Fatal("claimed nothing as a probe")
	}
	f.sendMany("sick", 4)
	f.until("a probe", func() bool { return len(f.claim(5).ids) == 1 })
	if n := f.count("SELECT count(*) FROM " + f.table + " WHERE status = 1"); n != 1 {
		t.Errorf("%d probes", n)
	}
}

var errAway = errors.New(away)

// sickOf is a handler that cannot reach the destination of a topic.
func sickOf(topic string, d *deliveries) outbox.Handler {
	return func(ctx context.Context, m *outbox.Delivery) error {
		if m.Topic == topic {
			return fmt.Errorf("publishing: %w", workqueue.Unavailable(errAway))
		}
		return d.handle(ctx, m)
	}
}

