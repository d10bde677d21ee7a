package workqueue_test

import (
	"slices"
	"testing"

	"github.com/txwork/txwork/workqueue"
)

// The first claim of a worker that could handle far more asks for twenty rows, with a lease of half a minute.
func TestDefaultsOfAClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.exec(`CREATE TABLE leases (seconds float8);
		CREATE FUNCTION on_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO leases VALUES (extract(epoch FROM NEW.locked_until - now())); RETURN NULL; END $$;
		CREATE TRIGGER on_claim AFTER UPDATE ON notes FOR EACH ROW WHEN (OLD.status = 0 AND NEW.status = 1) EXECUTE FUNCTION on_claim()`)
	id := r.insert("one")[0]
	r.start(workqueue.WorkerOptions{Concurrency: 1000}, ackAll)
	r.awaitStatus(workqueue.Done, id)
	if n := ask[int](r, "SELECT round(seconds)::int FROM leases"); n != 30 {
		t.Errorf("the lease is %d s, want 30", n)
	}
	r.Events.mu.Lock()
	defer r.Events.mu.Unlock()
	i := slices.IndexFunc(r.Events.events, operation("claim"))
	if n := r.Events.events[i].Requested; n != 20 {
		t.Errorf("the first claim asks for %d rows, want 20", n)
	}
}
