package workqueue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// audit records every change of a row, whichever program makes it.
const audit = `
CREATE TABLE audit (
	seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id uuid, at timestamptz DEFAULT clock_timestamp(),
	was smallint, is_now smallint, had uuid, has uuid, attempts_before int, attempts int, max_attempts int, due timestamptz);
CREATE FUNCTION record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO audit (id, was, is_now, had, has, attempts_before, attempts, max_attempts, due)
	VALUES (NEW.id, OLD.status, NEW.status, OLD.owner_token, NEW.owner_token, OLD.attempts, NEW.attempts, NEW.max_attempts, OLD.due_at);
	RETURN NULL;
END $$;
CREATE TRIGGER record AFTER UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION record();`

// violations lists queries over the audit that return nothing if the invariants hold.
var violations = map[string]string{
	"a transition that there is not": `
		SELECT count(*) FROM audit WHERE (was, is_now) NOT IN ((0, 1), (1, 0), (1, 1), (1, 2), (1, 3))`,
	"I3: a token that more than one claim of the row got": `
		SELECT count(*) FROM (SELECT FROM audit WHERE was = 0 AND is_now = 1 GROUP BY id, has HAVING count(*) > 1) AS twice`,
	"I3: a claim without a token of its own": `
		SELECT count(*) FROM audit WHERE was = 0 AND is_now = 1 AND (has IS NULL OR has IS NOT DISTINCT FROM had)`,
	"I4: a settle or renewal that changed the token": `
		SELECT count(*) FROM audit WHERE was = 1 AND has IS DISTINCT FROM had AND has IS NOT NULL`,
	"I4: a settle by a token that is not the last claim's": `
		SELECT count(*) FROM audit AS s WHERE s.was = 1 AND s.had IS DISTINCT FROM (
			SELECT c.has FROM audit AS c WHERE c.id = s.id AND c.was = 0 AND c.is_now = 1 AND c.seq < s.seq ORDER BY c.seq DESC LIMIT 1)`,
	"I5: a second terminal transition": `
		SELECT count(*) FROM (SELECT FROM audit WHERE is_now >= 2 GROUP BY id HAVING count(*) > 1) AS twice`,
	"I6: a claim that did not count exactly one attempt": `
		SELECT count(*) FROM audit WHERE was = 0 AND is_now = 1 AND attempts <> attempts_before + 1`,
	"I6: attempts that grew otherwise, or shrank by more than a snooze": `
		SELECT count(*) FROM audit WHERE was = 1 AND attempts NOT IN (attempts_before, attempts_before - CASE is_now WHEN 0 THEN 1 ELSE 0 END)`,
	"I6: attempts past their maximum": `SELECT count(*) FROM audit WHERE attempts > max_attempts`,
	"I9: a claim before the due time": `SELECT count(*) FROM audit WHERE was = 0 AND is_now = 1 AND at < due`,
}

// Several workers of different sizes come and go, with random outcomes: the invariants hold.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	total := pgtest.Size(1000, 5000)
	r := newLedgerRig(t, rigOptions{spec: func(s *workqueue.Spec) {
		s.MaxAttempts = 4
		s.Retry = workqueue.Retry{Growth: workqueue.Linear, Base: time.Millisecond, Cap: 20 * time.Millisecond,
			Jitter: 0.5}
	}})
	r.exec(audit)
	r.exec("CREATE INDEX ON audit (id, seq)")
	boom := errors.New("boom")
	handler := func(ctx context.Context, c *noteClaim) error {
		switch n := rand.IntN(20); n {
		case 0:
			return boom
		case 1:
			return workqueue.RetryNow(boom)
		case 2:
			return workqueue.RetryAfter(time.Duration(rand.IntN(10))*time.Millisecond, boom)
		case 3:
			return workqueue.Snooze(time.Duration(rand.IntN(10)) * time.Millisecond)
		case 4:
			return workqueue.Permanent(boom)
		case 5:
			return workqueue.Cancelled("by chance")
		case 6:
			panic("by chance")
		case 7:
			return c.Tx(ctx, func(tx pgx.Tx) error {
				if err := book(ctx, tx, c); err != nil {
					return err
				}
				return []error{nil, boom, workqueue.RetryNow(boom), workqueue.Permanent(boom)}[rand.IntN(4)]
			})
		case 8:
			// to be reaped
			r.exec("UPDATE notes SET locked_until = now() - interval '1 second' WHERE id = $1 AND status = 1", c.ID)
			return nil
		}
		return nil
	}
	r.reapAllTheWhile()
	options := []workqueue.WorkerOptions{
		{Concurrency: 1, ClaimLimit: 1}, {Concurrency: 5, NoListen: true, PollInterval: 20 * time.Millisecond},
		{Concurrency: 20}, {Concurrency: 50, ClaimLimit: 500, Lease: workqueue.MinLease},
	}
	var workers []*running
	for _, o := range options {
		workers = append(workers, r.start(o, handler))
	}
	for range total / 500 {
		r.insertMany("many", 500)
	}
	for i, o := range options { // rolling restart
		if err := workers[i].stop(t); err != nil {
			t.Error(err)
		}
		r.start(o, handler)
	}
	r.eventually("I1: every row to end", func() bool { return r.count("completed_at IS NULL") == 0 })
	if n := r.count("true"); n != total {
		t.Errorf("%d rows of %d", n, total)
	}
	for invariant, query := range violations {
		if n := ask[int64](r, query); n != 0 {
			t.Errorf("%s: %d times", invariant, n)
		}
	}
	if n := r.Events.count(func(e workqueue.Event) bool {
		return e.Operation == "claim" &&
			e.Changed > e.Requested
	}); n != 0 {
		t.Errorf("I7: %d claims brought more rows than they asked for", n)
	}
	unbooked := `SELECT count(*) FROM (SELECT note, attempt FROM ledger GROUP BY note, attempt HAVING count(*) > 1) AS twice`
	if n := ask[int64](r, unbooked); n != 0 {
		t.Errorf("I11: %d attempts were booked twice", n)
	}
}
