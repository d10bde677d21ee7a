package workqueue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// A lease that is lost together with others does not count, whatever the limit of a reap and whenever the leases end.
func TestLeasesLostTogetherDoNotCount(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(*rig){
		"at once": func(r *rig) { r.exec("UPDATE notes SET locked_until = now() - interval '1 s'") },
		"one after the other": func(r *rig) {
			for range 3 {
				r.exec("UPDATE notes SET locked_until = now() - interval '1 s' WHERE id = (SELECT min(id::text)::uuid " +
					"FROM notes WHERE status = 1)")
				reap(r, 10)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			r.exec("INSERT INTO notes (id, topic, max_attempts) SELECT gen_random_uuid(), 'x', 2 " +
				"FROM generate_series(1, 3)")
			claimNotes(r, 3)
			lost(r)
			for range 4 {
				reap(r, 1)
			}
			if n := r.count("status = 0 AND attempts = 0 AND headers ->> 'txwork-lost-together' = '1'"); n != 3 {
				t.Errorf("%d rows were given back, want 3: %s", n, *ask[*string](r,
					"SELECT string_agg(notes::text, chr(10)) FROM notes"))
			}
		})
	}
}

// A lease that is lost alone counts, as do further ones, and one of a row that must not begin twice. A row that always
// loses its lease together with another ends, too.
func TestLostLeasesCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.exec("INSERT INTO notes (topic, max_attempts) VALUES ('x', 1), ('x', 2), ('x', 2)")
	for i := range workqueue.MaxReturns {
		claimNotes(r, 3)
		r.exec("UPDATE notes SET locked_until = now() - interval '1 s' WHERE status = 1")
		reap(r, 10)
		if n := r.count("status = 0 AND attempts = 0"); n != 2 {
			t.Fatalf("reap %d: %d rows were given back, want 2", i, n)
		}
		if n := r.count("status = 3 AND max_attempts = 1"); n != 1 {
			t.Fatalf("%d dead letters of one attempt, want 1", n)
		}
	}
	for range 2 {
		claimNotes(r, 3)
		r.exec("UPDATE notes SET locked_until = now() - interval '1 s' WHERE status = 1")
		reap(r, 10)
	}
	if n := r.count("status = 3"); n != 3 {
		t.Errorf("%d dead letters, want 3", n)
	}
}

// A row that loses its leases alone says so before it is a dead letter, and the reaper logs the dead letter as a worker
// would, also when another row is in its way.
func TestARowThatEndsItsProcessIsSeen(t *testing.T) {
	t.Parallel()
	for name, reap := range map[string]func(*rig){
		"reap": func(r *rig) { reap(r, 10) },
		"each": func(r *rig) {
			if _, _, err := r.Queue.ReapExpiredEach(r.Context(), 10, nil); err != nil {
				r.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Labels = []string{"topic"} }})
			id := r.insertRows(workqueue.NewRow{Values: []any{"poison", ""}, MaxAttempts: 3})[0]
			for i, want := range []string{" in attempt 1",
				" in attempt 2, lost alone 2 times: it may end its process",
				" in attempt 3, lost alone 3 times: it may end its process"} {
				r.exec("UPDATE notes SET due_at = now()")
				claimNotes(r, 1)
				r.exec("UPDATE notes SET locked_until = now() - interval '1 s'")
				reap(r)
				if got := ask[string](r, "SELECT last_error FROM notes"); !strings.HasSuffix(got, want) {
					t.Errorf("the error of attempt %d is %q, want %q", i+1, got, want)
				}
			}
			line := fmt.Sprintf("level=WARN msg=\"dead letter\" table=%s topic=poison id=%s attempt=3 max_attempts=3 "+
				"error=\"lease expired at ", r.Table.Name(), id)
			if n := strings.Count(r.Logs.String(), "dead letter"); n != 1 || !strings.Contains(r.Logs.String(), line) {
				t.Errorf("%d dead letters are logged, want one with %s: %s", n, line, r.Logs)
			}
		})
	}
}

// Rows that are requeued one by one, because one is in the way, have lost their leases together, too.
func TestLeasesLostBesideARowInTheWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.exec("INSERT INTO notes (id, topic, max_attempts) SELECT gen_random_uuid(), CASE n WHEN 1 THEN 'stuck' ELSE 'x' " +
		"END, 2 FROM generate_series(1, 3) AS n")
	r.exec("ALTER TABLE notes ADD CHECK (topic <> 'stuck' OR status = 1) NOT VALID")
	claimNotes(r, 3)
	r.exec("UPDATE notes SET locked_until = now() - interval '1 s'")
	done, skipped, err := r.Queue.ReapExpiredEach(r.Context(), 10, nil)
	if err != nil || done.Requeued != 2 || len(skipped) != 1 {
		t.Errorf("requeued %+v, skipped %v, %v", done, skipped, err)
	}
	if n := r.count("status = 0 AND attempts = 0 AND headers ->> 'txwork-lost-together' = '1'"); n != 2 {
		t.Errorf("%d rows were given back, want 2", n)
	}
}

func claimNotes(r *rig, limit int) {
	r.Helper()
	if _, err := r.Queue.Claim(r.Context(), workqueue.NewOwnerToken(), time.Minute, limit); err != nil {
		r.Fatal(err)
	}
}

func reap(r *rig, limit int) {
	r.Helper()
	if _, err := r.Queue.ReapExpired(r.Context(), limit); err != nil {
		r.Fatal(err)
	}
}
