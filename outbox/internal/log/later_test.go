package log_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
)

// schedule writes a message that is due after a delay, and returns its id. An empty key is none.
func (f *fixture) schedule(q querier, key, payload string, delay time.Duration) uuid.UUID {
	f.Helper()
	return value[uuid.UUID](f, q, "SELECT id FROM "+f.name+"_append('topic', $1, $2, "+
		"scheduled_at => clock_timestamp() + $3::float8 * interval '1 second')", []byte(payload), key, delay.Seconds())
}

// pass lets time pass for what is scheduled.
func (f *fixture) passTime(by time.Duration) {
	f.Helper()
	f.exec(f.Pool, "UPDATE "+f.name+"_later SET due_at = due_at - $1::float8 * interval '1 second', "+
		"scheduled_at = scheduled_at - $1::float8 * interval '1 second', "+
		"retry_at = retry_at - $1::float8 * interval '1 second'", by.Seconds())
}

func (f *fixture) scheduled() []string {
	f.Helper()
	return value[[]string](f, f.Pool, "SELECT coalesce(array_agg(convert_from(payload, 'UTF8') ORDER BY due_at, ord), "+
		"'{}') FROM "+f.name+"_later")
}

// What is scheduled comes when it is due, in the order of the times, and what is due at once goes past it.
func TestScheduledMessagesComeWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.schedule(f.Pool, "", "two hours", 2*time.Hour)
	f.schedule(f.Pool, "", "one hour", time.Hour)
	f.schedule(f.Pool, "", "past", -time.Hour)
	f.append(f.Pool, "now")
	f.want("at once", f.drain("s", 10), "past", "now")
	f.passTime(90 * time.Minute)
	f.want("after an hour and a half", f.drain("s", 10), "one hour")
	f.passTime(time.Hour)
	f.want("later", f.drain("s", 10), "two hours")
	f.want("scheduled", f.scheduled())
}

// What is behind a scheduled message in its key waits for it, as behind a row. Other keys do not.
func TestAScheduledMessageHoldsUpItsKey(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.schedule(f.Pool, "k", "1", time.Hour)
	f.appendKey(f.Pool, "k", "2")
	f.schedule(f.Pool, "k", "3", time.Minute)
	f.appendKey(f.Pool, "l", "other")
	f.want("others", f.drain("s", 10), "other")
	f.passTime(2 * time.Hour)
	f.appendKey(f.Pool, "k", "4") // due, and not appended yet
	f.want("the key", f.drain("s", 10), "1", "2", "3", "4")
	f.appendKey(f.Pool, "k", "5")
	f.want("from now on", f.drain("s", 10), "5")
}

// A writer that waited for the writer of a scheduled message of its key goes behind that.
func TestAWriterSeesWhatTheOneBeforeHasScheduled(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	tx := f.begin()
	f.schedule(tx, "k", "1", time.Hour)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.appendKey(f.Pool, "k", "2")
	}()
	for end := time.Now().Add(pgtest.Patience); value[int](f, f.Pool, "SELECT count(*) FROM pg_locks WHERE NOT granted "+
		"AND locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 0; {
		if time.Now().After(end) {
			t.Fatal("the second writer does not wait")
		}
	}
	f.ok(tx.Commit(f.Context()))
	<-done
	f.want("scheduled", f.scheduled(), "1", "2")
	f.want("in the log", f.drain("s", 10))
}

// A cancelled message is not delivered, and lets those behind it go. What is in the log is not cancelled.
func TestCancelledMessagesAreNotDelivered(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	first := f.schedule(f.Pool, "k", "1", time.Hour)
	f.schedule(f.Pool, "k", "2", time.Minute)
	f.appendKey(f.Pool, "k", "3")
	alone := f.schedule(f.Pool, "", "alone", time.Hour)
	past := f.schedule(f.Pool, "", "past", -time.Hour)
	got := value[[]uuid.UUID](f, f.Pool, "SELECT array_agg(c) FROM "+f.name+"_cancel($1) AS c",
		[]uuid.UUID{first, alone, past, uuid.New()})
	if len(got) != 2 {
		t.Errorf("cancelled %v, want %v and %v", got, first, alone)
	}
	f.want("at once", f.drain("s", 10), "past")
	f.passTime(2 * time.Minute)
	f.want("after the second is due", f.drain("s", 10), "2", "3")
}

// A cancel that has not ended holds up its key, which then goes on in its order, and no other.
func TestACancelThatIsOpenHoldsUpItsKeyOnly(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprint(commits), func(t *testing.T) {
			t.Parallel()
			f := newLog(t)
			f.subscribe("s")
			first := f.schedule(f.Pool, "k", "1", time.Minute)
			f.schedule(f.Pool, "k", "2", time.Minute)
			f.schedule(f.Pool, "l", "other", time.Minute)
			f.schedule(f.Pool, "", "no key", time.Minute)
			f.passTime(time.Hour)
			tx := f.begin()
			f.exec(tx, "SELECT "+f.name+"_cancel($1)", []uuid.UUID{first})
			f.want("meanwhile", f.drain("s", 10), "other", "no key")
			want := []string{"1", "2"}
			if commits {
				f.ok(tx.Commit(f.Context()))
				want = want[1:]
			} else {
				f.ok(tx.Rollback(f.Context()))
			}
			f.want("after it", f.drain("s", 10), want...)
		})
	}
}

// Whoever appends what is due may die at any time, and several do at once: each message comes once, in its key's order.
func TestDueMessagesAreAppendedOnce(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	const keys, each = 20, 30
	for i := range each {
		for k := range keys {
			f.schedule(f.Pool, fmt.Sprint("k", k), fmt.Sprintf("k%d %d", k, i), time.Minute)
		}
	}
	f.passTime(time.Hour)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 { // one in two dies before its commit
				tx, err := f.Pool.Begin(f.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := tx.Exec(f.Context(), "SELECT "+f.name+"_append_due(37)"); err != nil {
					t.Error(err)
				}
				_ = tx.Rollback(context.Background())
				f.exec(f.Pool, "SELECT "+f.name+"_append_due(23)")
			}
		})
	}
	all.Wait()
	next := map[string]int{}
	got := f.drain("s", 1000)
	for _, p := range got {
		key, n, _ := strings.Cut(p, " ")
		if n != fmt.Sprint(next[key]) {
			t.Errorf("%s came as number %d of its key", p, next[key])
		}
		next[key]++
	}
	if len(got) != keys*each {
		t.Errorf("%d messages came, want %d", len(got), keys*each)
	}
}

// A message that the log does not take stays scheduled, and keeps nobody from ticking, and only its key from the log.
func TestWhatCannotBeAppendedHoldsUpNobody(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.schedule(f.Pool, "k", "refused", time.Minute)
	f.schedule(f.Pool, "k", "behind", time.Minute)
	f.schedule(f.Pool, "l", "due", time.Minute)
	f.exec(f.Pool, "ALTER TABLE "+f.name+" ADD CONSTRAINT mine CHECK (payload <> 'refused') NOT VALID")
	f.passTime(time.Hour)
	f.append(f.Pool, "other")
	f.want("others", f.drain("s", 10), "other", "due")
	f.want("scheduled", f.scheduled(), "refused", "behind")
	seq := value[int](f, f.Pool, "SELECT last_value FROM "+f.name+"_seq")
	f.tick()
	if tried := value[int](f, f.Pool, "SELECT last_value FROM "+f.name+"_seq") - seq; tried != 0 {
		t.Errorf("the next tick tried %d messages again", tried)
	}
	f.exec(f.Pool, "ALTER TABLE "+f.name+" DROP CONSTRAINT mine")
	f.exec(f.Pool, "CREATE RULE swallow AS ON INSERT TO "+f.name+" DO INSTEAD NOTHING")
	f.passTime(time.Minute)
	f.tick()
	f.want("scheduled", f.scheduled(), "refused", "behind")
	f.exec(f.Pool, "DROP RULE swallow ON "+f.name)
	f.passTime(time.Minute)
	f.want("at last", f.drain("s", 10), "refused", "behind")
}

// The dedup key of a scheduled message is taken while that waits, and then for as long as any.
func TestTheDedupKeyOfAScheduledMessage(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	once := func(payload string) bool {
		return value[bool](f, f.Pool, "SELECT duplicate FROM "+f.name+"_append('topic', $1, dedup_key => 'd', "+
			"scheduled_at => now() + interval '1 hour')", []byte(payload))
	}
	if once("first") || !once("second") {
		t.Error("the first is a duplicate, or the second is none")
	}
	trim := func() []string {
		f.append(f.Pool, "x")
		f.drain("s", 10)
		f.exec(f.Pool, "CALL "+f.name+"_trim('0')")
		return f.taken()
	}
	f.want("while it waits", trim(), "d")
	f.want("while it waits", trim(), "d")
	f.passTime(2 * time.Hour)
	f.tick()
	f.exec(f.Pool, "CALL "+f.name+"_trim('0')")
	f.want("before it is passed", f.taken(), "d")
	f.want("it", f.drain("s", 10), "first")
	f.want("after it is passed", trim())
}

// What is due in masses comes in batches of a bounded size, and one that is held up by an open transaction holds up the
// others of its key only.
func TestDueMessagesComeInBoundedBatches(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.exec(f.Pool, "SELECT "+f.name+"_append('t', convert_to(rpad(n::text, 1 << 20), 'UTF8'), 'k', "+
		"scheduled_at => clock_timestamp() + interval '1 minute') FROM generate_series(10, 29) AS n")
	f.passTime(time.Hour)
	for _, want := range []int{16, 4, 0} {
		if got := value[int](f, f.Pool, "SELECT "+f.name+"_append_due(1000)"); got != want {
			t.Errorf("a call appended %d messages, want %d", got, want)
		}
	}
	f.want("in the log", value[[]string](f, f.Pool, "SELECT array_agg(convert_from(substr(payload, 1, 2), 'UTF8') "+
		"ORDER BY seq) FROM "+f.name)[14:18], "24", "25", "26", "27")
}

func TestAHeldKeyWithManyMessagesHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	var heads []uuid.UUID
	for _, k := range []string{"k", "l"} {
		heads = append(heads, f.schedule(f.Pool, k, "head", time.Minute))
		for range 5 {
			f.schedule(f.Pool, k, "behind", time.Minute)
		}
	}
	f.schedule(f.Pool, "", "no key", time.Minute)
	f.schedule(f.Pool, "m", "other", time.Minute)
	f.passTime(time.Hour)
	tx := f.begin()
	f.exec(tx, "SELECT "+f.name+"_cancel($1)", heads)
	if got := value[int](f, f.Pool, "SELECT "+f.name+"_append_due(3)"); got != 2 {
		t.Errorf("%d messages were appended, want 2", got)
	}
	f.want("meanwhile", f.drain("s", 10), "no key", "other")
	f.ok(tx.Commit(f.Context()))
	if got := f.drain("s", 10); len(got) != 10 {
		t.Errorf("%d messages came after the cancel, want 10", len(got))
	}
}

// As ids are not unique in the log, they are not among what is scheduled.
func TestScheduledMessagesMayHaveOneID(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	id := uuid.New()
	for _, key := range []string{"k", "l", "k"} {
		f.exec(f.Pool, "SELECT "+f.name+"_append('t', convert_to($1, 'UTF8'), $1, id => $2, "+
			"scheduled_at => clock_timestamp() + interval '1 minute')", key, id)
	}
	tx := f.begin()
	if n := value[int](f, tx, "SELECT count(*) FROM "+f.name+"_cancel($1)", []uuid.UUID{id}); n != 3 {
		t.Errorf("%d messages were cancelled, want 3", n)
	}
	f.ok(tx.Rollback(f.Context()))
	f.passTime(time.Hour)
	f.want("due", f.drain("s", 10), "k", "l", "k")
}

// An open transaction that has removed dedup keys holds up what has them, and no tick.
func TestATickDoesNotWaitForDedupKeys(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.exec(f.Pool, "SELECT "+f.name+"_append('t', 'due', dedup_key => 'd', "+
		"scheduled_at => clock_timestamp() + interval '1 minute')")
	f.schedule(f.Pool, "", "due, too", time.Minute)
	f.passTime(time.Hour)
	tx := f.begin()
	f.exec(tx, "DELETE FROM "+f.name+"_dedup")
	f.append(f.Pool, "other")
	conn, err := f.Pool.Acquire(f.Context())
	f.ok(err)
	defer conn.Release()
	f.exec(conn, "SET statement_timeout = '10s'") // as relays have it
	f.exec(conn, "CALL "+f.name+"_tick()")
	f.want("meanwhile", f.drain("s", 10), "other", "due, too")
	f.ok(tx.Rollback(f.Context()))
	f.passTime(time.Minute)
	f.want("afterwards", f.drain("s", 10), "due")
}
