package log_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// retain calls the sweep, and returns how many subscriptions it has moved and what it tells.
func (f *fixture) retain() (moved int, told string) {
	f.Helper()
	f.ok(pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error {
		moved = value[int](f, tx, "SELECT "+f.name+"_parked_retain(1000)")
		told = value[string](f, tx, "SELECT coalesce(current_setting('txwork.told_retain', true), '')")
		return nil
	}))
	return moved, told
}

// tickedAgo stores a tick, and lets the log have it since then.
func (f *fixture) tickedAgo(age string) {
	f.Helper()
	n, _ := f.tick()
	f.exec(f.Pool, "UPDATE "+f.name+"_tick SET at = clock_timestamp() - $2::interval WHERE n = $1", n, age)
}

// A subscription passes over messages that are older than its retention, and over no others. That is counted, recorded
// and told.
func TestARetentionByAge(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', '{topic}', max_age => '1 hour')")
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('all')")
	f.exec(f.Pool, "SELECT "+f.name+"_append('another', '')")
	f.append(f.Pool, numbered("old", 1, 5)...)
	f.tickedAgo("60 minutes 30 seconds")
	p := f.fetch("s", 3)
	f.settles("settled", "s", p.token, p.messages[0].Seq)
	if n, told := f.retain(); n != 0 || told != "" {
		t.Errorf("half a minute beyond its retention: %d moved, told %s", n, told)
	}
	f.settles("settled", "s", p.token, p.messages[1].Seq)
	f.append(f.Pool, "also old")
	f.tickedAgo("61 minutes")
	f.append(f.Pool, "young")
	f.tickedAgo("59 minutes")
	f.exec(f.Pool, "UPDATE "+f.name+"_tick SET at = at - interval '2 minutes' WHERE at < now() - interval '1 hour'")
	n, told := f.retain()
	var all []struct {
		Message, Subscription string
		Messages              int
		Oldest, Newest        time.Time
	}
	if err := json.Unmarshal([]byte(told), &all); err != nil || n != 1 || len(all) != 1 || all[0].Messages != 4 ||
		all[0].Subscription != "s" || all[0].Newest.Before(all[0].Oldest) || !strings.Contains(all[0].Message, "lost") {
		t.Errorf("%d moved, told %s, %v", n, told, err)
	}
	if got := f.settle("s", p.token, p.upto); got != "lost" {
		t.Errorf("settle of a page that was cut: %s", got)
	}
	if why := value[string](f, f.Pool, "SELECT why || ' ' || messages FROM "+f.name+"_loss"); why != "retention 4" {
		t.Errorf("recorded: %s", why)
	}
	if n, told := f.retain(); n != 0 || told != "" {
		t.Errorf("again: %d moved, told %s", n, told)
	}
	f.want("what is left", f.drain("s", 10), "young")
	if n := len(f.drain("all", 100)); n != 8 {
		t.Errorf("a subscription without a retention has %d messages, want 8", n)
	}
}

// Of the newest messages of the log none is lost, as many as the retention says.
func TestARetentionByMessages(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', lanes => 2, max_messages => 100)")
	write := func(from, to int) {
		for i := from; i < to; i += 10 {
			f.append(f.Pool, numbered("m", i, i+9)...)
			f.tick()
		}
	}
	write(1, 110)
	if n, _ := f.retain(); n != 0 || f.losses("s") != 0 {
		t.Errorf("a tenth beyond its retention: %d moved, %d lost", n, f.losses("s"))
	}
	write(111, 120)
	if n, _ := f.retain(); n != 1 || f.losses("s") != 20 {
		t.Errorf("%d moved, %d lost, want 20", n, f.losses("s"))
	}
	write(121, 140)
	if n, _ := f.retain(); n != 1 || f.losses("s") != 40 {
		t.Errorf("%d moved, %d lost, want 40", n, f.losses("s"))
	}
	if n := value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_loss"); n != 2 {
		t.Errorf("%d records, want one for each lane and day", n)
	}
	f.sameSet("the newest", f.drain("s", 1000), numbered("m", 41, 140)...)
}

// What would be lost is lost to no one who may not lose it.
func TestARetentionWaits(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', max_age => '1 hour')")
	f.append(f.Pool, "a")
	f.age()
	f.tick()
	f.age()
	none := func(what string) {
		t.Helper()
		if n, told := f.retain(); n != 0 || told != "" || f.losses("s") != 0 {
			t.Errorf("%s: %d moved, told %s", what, n, told)
		}
	}
	f.exec(f.Pool, "UPDATE "+f.name+"_state SET successor = 's', moving = true, switched_at = now()")
	none("while an outbox of rows moves there")
	f.exec(f.Pool, "UPDATE "+f.name+"_state SET successor = NULL, moving = false, switched_at = NULL")
	verb := f.begin()
	f.exec(verb, "SELECT FROM "+f.name+"_change('s', max_age => '2 hours')")
	none("beside a verb")
	f.ok(verb.Commit(f.Context()))
	none("within a longer retention")
	f.verb(f.Pool, "change('s', max_age => '1 hour')")
	consumer := f.begin()
	f.exec(consumer, "SELECT FROM "+f.name+"_position FOR UPDATE")
	none("beside a consumer that is about to commit")
	f.ok(consumer.Rollback(f.Context()))
	f.elsewhere()
	_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_parked_retain(10)")
	f.refused("where ids began again", err, "55000")
	f.exec(f.Pool, "SELECT "+f.name+"_rebase()")
	if n, _ := f.retain(); n != 1 || f.losses("s") != 1 {
		t.Errorf("%d moved, %d lost, want 1", n, f.losses("s"))
	}
}

// The rest of a destination goes on, and a subscription that is paused has its retention.
func TestARetentionOfADestinationThatRests(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', max_age => '1 hour')")
	f.append(f.Pool, "a")
	f.tick()
	f.age()
	p := f.fetch("s", 10)
	f.unavailable("s", p.token, "no route")
	f.append(f.Pool, "b")
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_pause('s')")
	if n, _ := f.retain(); n != 1 || f.losses("s") != 1 {
		t.Errorf("%d moved, %d lost, want 1", n, f.losses("s"))
	}
	f.exec(f.Pool, "UPDATE "+f.name+"_subscription SET paused = false")
	if cause := value[string](f, f.Pool, "SELECT (rest).cause FROM "+f.name+"_position"); cause != "no route" {
		t.Errorf("it rests because of %q", cause)
	}
	f.rested("s")
	f.want("the probe", f.fetch("s", 10).payloads(), "b")
}

// A retention is set and changed, and taken back by 0. Whoever changes nothing else takes no page.
func TestChangeOfARetention(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "a", "b")
	f.tick()
	p := f.fetch("s", 1)
	has := func() string {
		return value[string](f, f.Pool, "SELECT concat_ws(' ', max_age, max_messages) FROM "+f.name+"_subscription")
	}
	for _, c := range []struct{ call, want string }{
		{"max_age => '1 day'", "1 day"}, {"max_messages => 1000", "1 day 1000"}, {"max_age => '0'", "1000"},
		{"lanes => NULL", "1000"}, {"max_messages => 0, max_age => '7 days'", "7 days"},
	} {
		got := f.verb(f.Pool, "change('s', "+c.call+")")
		if has() != c.want || len(got) != 1 || got[0].Taken != (c.call == "lanes => NULL") {
			t.Errorf("%s: it has %q, want %q; the lanes are %+v", c.call, has(), c.want, got)
		}
		if c.call == "max_age => '0'" {
			f.settles("settled", "s", p.token, p.upto)
			p = f.fetchAgain("s", p.token, 1)
		}
	}
	for column, wrong := range map[string]string{"max_age": "'8 days'", "max_messages": "-1"} {
		for _, call := range []string{"change('s'", "subscribe('t'"} {
			_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_"+call+", "+column+" => "+wrong+")")
			f.refusedOf(call, err, "22023", column, "0 is none")
		}
	}
}
