package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// onSettle makes PostgreSQL run a piece of PL/pgSQL before a row is settled.
func (r *rig) onSettle(body string) {
	r.Helper()
	r.exec(`CREATE OR REPLACE FUNCTION on_settle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + body +
		` RETURN NEW; END $$;
		CREATE OR REPLACE TRIGGER on_settle BEFORE UPDATE ON notes FOR EACH ROW
		WHEN (OLD.status = 1 AND NEW.status <> 1) EXECUTE FUNCTION on_settle()`)
}

// holds is a handler that ends when every one of n rows is in progress, so that they are settled together.
func (r *rig) holds(n int) workqueue.Handler[note] {
	started, all := make(chan struct{}, n), make(chan struct{})
	go func() {
		for range n {
			select {
			case <-started:
			case <-r.Context().Done():
				return
			}
		}
		close(all)
	}()
	return func(ctx context.Context, _ *noteClaim) error {
		select {
		case started <- struct{}{}:
			<-all
		case <-all:
		}
		return nil
	}
}

// mixed inserts rows of two topics alternately, in the order of their ids.
func (r *rig) mixed(topic string, n int, among string, m int) (rare, common []uuid.UUID) {
	r.Helper()
	topics := make([]string, n+m)
	for i := range topics {
		topics[i] = among
	}
	for i := range n {
		topics[i*(n+m)/n] = topic
	}
	for i, id := range r.insert(topics...) {
		if topics[i] == topic {
			rare = append(rare, id)
		} else {
			common = append(common, id)
		}
	}
	return rare, common
}

type sqlState struct {
	code   string
	passes bool
}

// sqlStates are errors of every class that a settle may meet, and whether they are temporary. If so, the row is tried
// until they are over; otherwise it is left to its lease.
var sqlStates = []sqlState{
	{"08006", true},  // connection_failure
	{"0A000", false}, // feature_not_supported
	{"22012", false}, // division_by_zero
	{"23514", false}, // check_violation
	{"25006", true},  // read_only_sql_transaction
	{"40001", true},  // serialization_failure
	{"42501", false}, // insufficient_privilege
	{"42P01", false}, // undefined_table
	{"44000", false}, // with_check_option_violation
	{"53100", true},  // disk_full
	{"53200", true},  // out_of_memory
	{"54000", false}, // program_limit_exceeded
	{"55000", false}, // object_not_in_prerequisite_state
	{"55P03", true},  // lock_not_available
	{"57014", true},  // query_canceled
	{"58030", true},  // io_error
	{"P0001", false}, // raise_exception
	{"XX000", false}, // internal_error
}

// someStates returns every third of them, or all.
func someStates() (some []sqlState) {
	for i := 0; i < len(sqlStates); i += pgtest.Size(3, 1) {
		some = append(some, sqlStates[i])
	}
	return some
}

// Rows that the database refuses to settle, with whatever SQLSTATE, do not delay the others of their batch.
func TestRefusedSettlesFailAlone(t *testing.T) {
	t.Parallel()
	for _, state := range someStates() {
		t.Run(state.code, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			r.onSettle(fmt.Sprintf("IF NEW.topic = 'refused' THEN RAISE EXCEPTION 'no' USING ERRCODE = '%s'; END IF;",
				state.code))
			refused, fine := r.mixed("refused", 5, "fine", 195)
			r.start(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 200, ClaimLimit: 200}, r.holds(200))
			r.awaitStatus(workqueue.Done, fine...)
			r.awaitStatus(workqueue.Done, r.insertMany("later", 50)...)
			if n := r.count("id = ANY ($1) AND status = 1", refused); n != 5 {
				t.Errorf("%d refused rows are in progress, want 5", n)
			}
			if state.passes {
				r.onSettle("")
				r.awaitStatus(workqueue.Done, refused...)
				return
			}
			r.eventually("the refused rows to be left to their leases", func() bool {
				return strings.Count(r.Logs.String(), "left to the reaper") == 5
			})
			for _, id := range refused {
				if strings.Count(r.Logs.String(), "reaper\" table="+r.Table.Name()+" id="+id.String()) != 1 {
					t.Errorf("the logs do not name %s once:\n%s", id, r.Logs.tail())
				}
			}
		})
	}
}

// A settle that fails once is repeated: nothing is lost, and nothing runs twice.
func TestSettleThatFailsOnceIsRepeated(t *testing.T) {
	t.Parallel()
	for _, state := range someStates() {
		t.Run(state.code, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			r.exec("CREATE SEQUENCE refusals")
			r.onSettle(fmt.Sprintf("IF nextval('refusals') = 1 THEN RAISE EXCEPTION 'no' USING ERRCODE = '%s'; END IF;",
				state.code))
			ids := r.insertMany("a", 50)
			r.start(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 50, ClaimLimit: 50}, r.holds(50))
			r.awaitStatus(workqueue.Done, ids...)
			if n := r.count("attempts <> 1"); n != 0 {
				t.Errorf("%d rows ran again", n)
			}
			if strings.Contains(r.Logs.String(), "left to the reaper") {
				t.Errorf("rows were given up:\n%s", r.Logs.tail())
			}
		})
	}
}

// If a row is alone, no other rows show whether the database refuses this row or every row.
func TestRefusedRowByItselfIsLeftToItsLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.onSettle("RAISE EXCEPTION 'no' USING ERRCODE = '42501';")
	r.insert("a")
	r.start(workqueue.WorkerOptions{Lease: time.Hour}, ackAll)
	r.eventually("the row to be given up", func() bool {
		return strings.Contains(r.Logs.String(), "left to the reaper")
	})
}

// While nothing can be settled, the worker waits. It does not give up one row after the other, only to run them again
// for nothing.
func TestNothingIsGivenUpWhileNothingCanBeSettled(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.onSettle("RAISE EXCEPTION 'no' USING ERRCODE = '42501';")
	ids := r.insertMany("a", 300)
	r.start(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 300, ClaimLimit: 300}, r.holds(300))
	r.eventually("settles that failed", func() bool {
		return r.Events.count(func(e workqueue.Event) bool { return e.Operation == "settle" && e.Err != nil }) > 50
	})
	r.onSettle("")
	r.awaitStatus(workqueue.Done, ids...)
	if n := r.count("attempts <> 1"); n != 0 || strings.Contains(r.Logs.String(), "left to the reaper") {
		t.Errorf("%d rows ran again:\n%s", n, r.Logs.tail())
	}
}

// An index of the application on last_error does not accept a text of 8 KiB.
func TestErrorThatAnIndexRefusesFailsAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.exec("CREATE INDEX ON notes (last_error)")
	refused, fine := r.mixed("refused", 5, "fine", 95)
	together := r.holds(100)
	r.start(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 100, ClaimLimit: 100}, func(ctx context.Context,
		c *noteClaim) error {
		together(ctx, c)
		if c.Body.Topic == "fine" {
			return nil
		}
		var message strings.Builder
		for message.Len() < 8000 {
			fmt.Fprintf(&message, "%x", rand.Uint64())
		}
		return workqueue.Permanent(errors.New(message.String()))
	})
	r.awaitStatus(workqueue.Done, fine...)
	r.eventually("the refused rows to be left to their leases", func() bool {
		return strings.Count(r.Logs.String(), "left to the reaper") == len(refused)
	})
}

// A settle may wait for a lock that is not on a row of its batch: a trigger may take it.
func TestLockOfATriggerDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.exec("CREATE TABLE counters (topic text PRIMARY KEY); INSERT INTO counters VALUES ('held')")
	r.onSettle("PERFORM FROM counters WHERE topic = NEW.topic FOR UPDATE;")
	held, free := r.mixed("held", 5, "free", 195)
	locks, err := r.Eyes.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Rollback(context.Background())
	if _, err := locks.Exec(t.Context(), "SELECT FROM counters FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	r.start(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 200, ClaimLimit: 200}, r.holds(200))
	r.awaitStatus(workqueue.Done, free...)
	r.awaitStatus(workqueue.Done, r.insertMany("later", 50)...)
	if n := r.count("id = ANY ($1) AND status = 1", held); n != 5 {
		t.Errorf("%d of the held rows are in progress, want 5", n)
	}
	if err := locks.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(workqueue.Done, held...)
}

// A row whose settle takes longer than the limits allow does not hold up other rows.
func TestEndlessSettleDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.onSettle("IF NEW.topic = 'endless' THEN PERFORM pg_sleep(3600); END IF;")
	endless, quick := r.mixed("endless", 2, "quick", 98)
	r.start(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 100, ClaimLimit: 100}, r.holds(100))
	r.awaitStatus(workqueue.Done, quick...)
	r.onSettle("")
	r.awaitStatus(workqueue.Done, endless...)
	if n := r.count("attempts <> 1"); n != 0 {
		t.Errorf("%d rows ran again", n)
	}
}

// Locked rows are found with one statement, and not by halving the batch.
func TestLockedRowsAreFoundAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	held, free := r.mixed("held", 100, "free", 100)
	all := make(chan struct{})
	started := make(chan struct{}, 200)
	r.start(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 200, ClaimLimit: 200}, func(context.Context,
		*noteClaim) error {
		started <- struct{}{}
		<-all
		return nil
	})
	for range 200 {
		receive(t, started, "every row is in progress")
	}
	locks, err := r.Eyes.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Rollback(context.Background())
	if _, err := locks.Exec(t.Context(), "SELECT FROM notes WHERE topic = 'held' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	close(all)
	r.awaitStatus(workqueue.Done, free...)
	failed := r.Events.count(func(e workqueue.Event) bool { return e.Operation == "settle" && e.Err != nil })
	if failed > 50 {
		t.Errorf("%d settles failed before the free rows were settled", failed)
	}
	locks.Rollback(context.Background())
	r.awaitStatus(workqueue.Done, held...)
}
