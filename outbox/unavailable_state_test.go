package outbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/dispatch"
)

// A settle of a probe does not wait for an operator who has not committed a pause, a resume or other rests.
func TestASettleDoesNotWaitForAnOperatorOfItsTopic(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"pauses": "SELECT $_pause('sick')", "pauses another": "SELECT $_pause('new')",
		"changes the rests": "UPDATE $_topic SET first_rest = '2 s', longest_rest = '3 s'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			f.sickness("sick", 1)
			f.rested("sick")
			f.sendMany("new", 1)
			hand := f.claim(10)
			if len(hand.ids) != 2 {
				t.Fatalf("claimed %v", hand.ids)
			}
			end := f.beginsIn(func(tx pgx.Tx) {
				if _, err := tx.Exec(t.Context(), strings.ReplaceAll(statement, "$", f.table)); err != nil {
					t.Fatal(err)
				}
			})
			changed, err := f.box.Table().On(f.Pool).Unavailable(f.soon(), hand.token, hand.ids, away)
			if err != nil || len(changed) != 2 {
				t.Errorf("settled %d rows, %v", len(changed), err)
			}
			end(true)
			if n := f.count("SELECT count(*) FROM " + f.table + " WHERE status = 0 AND attempts = 0"); n != 2 {
				t.Errorf("%d messages are back with their attempts", n)
			}
		})
	}
}

// A fetch whose client stays in its transaction keeps no topic closed that it has opened, and one that has the probe
// keeps it closed as a client does that has died: for the lease.
func TestAFetchThatIsNotCommitted(t *testing.T) {
	t.Parallel()
	fetches := func(f *fixture, lease string) (end func(commits bool)) {
		return f.beginsIn(func(tx pgx.Tx) {
			n := 0
			err := tx.QueryRow(t.Context(), "SELECT count(id) FROM "+f.table+"_fetch($1, $2::text::interval, 1)",
				workqueue.NewOwnerToken(), lease).Scan(&n)
			if err != nil || n != 1 {
				t.Fatalf("fetched %d rows, %v", n, err)
			}
		})
	}
	t.Run("that opens a topic", func(t *testing.T) {
		t.Parallel()
		f := newOutbox(t)
		f.sickness("sick", 5)
		f.rested("sick")
		probe := f.claim(1)
		if _, err := f.box.Table().On(f.Pool).Ack(t.Context(), probe.token, probe.ids); err != nil {
			t.Fatal(err)
		}
		end := fetches(f, "1 hour")
		others := f.claim(1)
		inSQL := f.fetch(workqueue.NewOwnerToken(), nil, nil)
		if len(others.ids) != 1 || len(inSQL.ids) != 2 || inSQL.held != nil {
			t.Fatalf("others claimed %v, and fetched %+v", others.ids, inSQL)
		}
		changed, err := f.box.Table().On(f.Pool).Unavailable(f.soon(), others.token, others.ids, away)
		if err != nil || len(changed) != 1 {
			t.Errorf("settled %d rows, %v", len(changed), err)
		}
		end(false)
		if again := f.claim(10); len(again.ids) != 2 {
			t.Errorf("claimed %v after the rollback, want what was put back and what was fetched", again.ids)
		}
		if _, rests := f.resting("sick"); rests {
			t.Error("the topic rests")
		}
	})
	t.Run("that has the probe", func(t *testing.T) {
		t.Parallel()
		f := newOutbox(t)
		f.sickness("sick", 3)
		f.rested("sick")
		f.sendMany("well", 3)
		fetches(f, "1 s")
		n := 0
		f.until("another topic", func() bool { n += len(f.claim(10).ids); return n >= 3 })
		f.until("another probe", func() bool { n += len(f.claim(10).ids); return n == 4 })
	})
}

// A rest that was written before the clock went back is over.
func TestARestAfterTheClockWentBack(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("sick", 3)
	hand := f.claim(3)
	f.unavailable(hand, hand.ids...)
	f.exec("UPDATE " + f.table + "_topic SET rests_until = clock_timestamp() + interval '1 hour'")
	if wake := f.nextWake(); wake == nil || wake.In > 0 {
		t.Errorf("the next wake is %+v, want one now", wake)
	}
	if probe := f.claim(10); len(probe.ids) != 1 {
		t.Errorf("%d probes", len(probe.ids))
	}
}

func (f *fixture) nextWake() *dispatch.Wake {
	f.Helper()
	wake, err := f.box.Table().On(f.Pool).NextWakeAt(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return wake
}

// The next wake is now if rows are aside whose topic is open, or whose probe has ended, and the end of the rest if it
// rests. Rows of a paused topic, or beside a probe that runs, wake nobody.
func TestTheNextWakeOfRowsAside(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("a", 3)
	for _, topic := range []string{"a", "b"} {
		f.pause(topic)
	}
	f.claim(1)
	if wake := f.nextWake(); wake != nil {
		t.Errorf("beside a pause the next wake is %+v", wake)
	}
	f.resume("a")
	if wake := f.nextWake(); wake == nil || wake.In > 0 {
		t.Errorf("after the resume it is %+v", wake)
	}
	f.restsLong("a")
	hand := f.claim(3)
	f.unavailable(hand, hand.ids...)
	if wake := f.nextWake(); wake == nil || wake.In < time.Minute {
		t.Errorf("during the rest it is %+v", wake)
	}
	f.rested("a")
	if wake := f.nextWake(); wake == nil || wake.In > 0 {
		t.Errorf("after the rest it is %+v", wake)
	}
	probe := f.claim(3)
	if wake := f.nextWake(); wake == nil || wake.In < 0 || wake.In > time.Minute {
		t.Errorf("beside a probe it is %+v, want the end of its lease", wake)
	}
	if _, err := f.box.Table().On(f.Pool).Ack(t.Context(), probe.token, probe.ids); err != nil {
		t.Fatal(err)
	}
	if wake := f.nextWake(); wake == nil || wake.In > 0 {
		t.Errorf("after the probe it is %+v", wake)
	}
}

// A topic rests since a time and until one, or not at all.
func TestTheStateOfATopicIsWhole(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sickness("sick", 1)
	for _, column := range []string{"unavailable_since", "rests_until"} {
		_, err := f.Pool.Exec(t.Context(), "UPDATE "+f.table+"_topic SET "+column+" = NULL")
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "23514" {
			t.Errorf("without %s: %v", column, err)
		}
	}
}

// Who does not see the message that probes takes it neither for gone nor for delivered.
func TestARoleThatDoesNotSeeTheProbe(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sickness("sick", 3)
	f.rested("sick")
	probe := f.claim(1)
	f.exec("ALTER TABLE " + f.table + " ENABLE ROW LEVEL SECURITY")
	f.exec("CREATE POLICY own ON " + f.table + " USING (id <> '" + probe.ids[0].String() + "')")
	f.exec("SELECT " + f.table + "_topic_policies()")
	f.as(func(q *workqueue.Queue) {
		rows, err := q.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
		if err != nil || len(rows) > 0 {
			t.Errorf("claimed %d rows beside a probe, %v", len(rows), err)
		}
		if wake, err := q.NextWakeAt(t.Context()); err != nil || wake != nil {
			t.Errorf("the next wake is %+v, %v", wake, err)
		}
	})
}
