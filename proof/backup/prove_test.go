//go:build unix

package backup

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// live selects the rows that still need a handler.
const live = `
	SELECT id FROM txwork.outbox WHERE completed_at IS NULL AND concurrency_key IS DISTINCT FROM 'dead'
	UNION ALL SELECT id FROM txwork.jobs WHERE completed_at IS NULL AND kind <> 'tick'
	UNION ALL SELECT id FROM txwork.timers WHERE completed_at IS NULL AND topic <> 'alarm'
	UNION ALL SELECT id FROM txwork.inbox WHERE completed_at IS NULL`

// wrong are queries that must return 0 on every copy.
var wrong = map[string]string{
	"orders whose message was not delivered": "SELECT count(*) FROM orders AS o WHERE NOT EXISTS (SELECT FROM " +
		"txwork.outbox AS m WHERE m.id = o.id AND m.status = 2)",
	"messages that failed":               "SELECT count(*) FROM txwork.outbox WHERE status = 3",
	"jobs that failed":                   "SELECT count(*) FROM txwork.jobs WHERE status = 3",
	"timers that did not fire":           "SELECT count(*) FROM txwork.timers WHERE status <> 2",
	"messages that were not processed":   "SELECT count(*) FROM txwork.inbox WHERE status <> 2",
	"alarms that did not fire":           "SELECT count(*) FROM txwork.alarms WHERE status <> 'fired'",
	"joins of messages that did not end": "SELECT count(*) FROM txwork.outbox_join WHERE status <> 1",
	"joins of jobs that did not end":     "SELECT count(*) FROM txwork.jobs_join WHERE status <> 1",
	"slots without a job": "SELECT count(*) FROM txwork.jobs_slot AS s WHERE NOT EXISTS (SELECT FROM " +
		"txwork.jobs AS j WHERE j.id = s.job_id AND j.status = 1)",
}

// complete checks that nothing is missing that was committed.
func (a *application) complete() {
	a.Helper()
	if n := ask[int](a, "SELECT count(*) FROM unnest($1::uuid[]) AS u (id) WHERE NOT EXISTS (SELECT FROM orders AS o "+
		"WHERE o.id = u.id)", a.old.orders.committed); n > 0 {
		a.Errorf("%d orders are missing of %d", n, len(a.old.orders.committed))
	}
}

// valid checks that the copy has everything that the migrations create.
func (a *application) valid() {
	a.Helper()
	m, err := migrations.New(a.pool, migrations.Options{})
	a.ok(err)
	a.ok(m.Validate(a.Context()))
}

// prove starts workers on a copy and checks that everything in it continues.
func (a *application) prove() {
	a.Helper()
	a.valid()
	left := all[struct{ ID uuid.UUID }](a, live)
	if len(left) < 10 {
		a.Errorf("only %d unfinished rows are in the copy, too few for this test", len(left))
	}
	done := map[string]int{} // last completed order of each key
	for _, o := range all[order](a, "SELECT o.id, o.key, max(o.n) OVER (PARTITION BY o.key) FROM orders AS o JOIN "+
		"txwork.outbox AS m USING (id) WHERE m.status = 2") {
		done[o.Key] = o.N
	}
	processed := all[struct{ MessageID string }](a, "SELECT message_id FROM txwork.inbox WHERE status = 2")
	schedules := ask[bool](a, "SELECT EXISTS (SELECT FROM txwork.jobs_schedule)")
	if schedules && len(processed) == 0 { // a copy of unfinished rows alone has neither
		a.Error("no received message was processed before the copy, so duplicates cannot be tested")
	}
	limited := ask[bool](a, "SELECT EXISTS (SELECT FROM txwork.jobs_queue)")
	fired := ask[int](a, "SELECT coalesce(max(fired), 0)::int FROM txwork.jobs_schedule")

	last := a.old.orders.next // of any key: new messages come behind all waiting ones
	for i := range 4 {
		o := order{ID: uuid.New(), Key: fmt.Sprint("key", i), N: last - last%5 + 5*(i+1)}
		a.ok(a.inTx(func(tx pgx.Tx) error { return a.place(a.Context(), tx, o) }))
	}
	behind := a.send(outbox.Message{Topic: topic, Key: stuck, Payload: []byte("last")})
	a.start()
	a.until("all is done", "SELECT count(*) = 0 FROM ("+live+") AS l")
	a.until("alarms have fired", "SELECT count(*) = 0 FROM txwork.alarms WHERE status = 'active'")
	a.until("joins have ended", "SELECT (SELECT count(*) FROM txwork.outbox_join WHERE status = 0) + (SELECT "+
		"count(*) FROM txwork.jobs_join WHERE status = 0) = 0")
	if schedules {
		a.until("the schedule goes on", "SELECT fired > $1 FROM txwork.jobs_schedule", fired)
	}
	a.unblock()
	a.stop()

	delivered := map[uuid.UUID]bool{}
	for _, d := range a.delivered() {
		delivered[d.id] = true
	}
	for _, row := range left {
		if !delivered[row.ID] {
			a.Errorf("%v has ended and no handler has seen it", row.ID)
		}
	}
	a.inOrder(done)
	a.lastOf(stuck, behind)
	for what, query := range wrong {
		if n := ask[int](a, query); n > 0 {
			a.Errorf("%s: %d", what, n)
		}
	}
	if limited && a.over.Load() {
		a.Errorf("more than %d jobs of a limit ran at once", most)
	}
	for _, m := range processed {
		a.duplicate(m.MessageID)
	}
}

// inOrder checks that each key continued after what was already done.
func (a *application) inOrder(done map[string]int) {
	a.Helper()
	seen := map[uuid.UUID]bool{}
	for _, d := range a.delivered() {
		var key string
		var n int
		if c, _ := fmt.Sscanf(d.name, "%s %d", &key, &n); c < 2 || !strings.HasPrefix(key, "key") || seen[d.id] {
			continue
		}
		seen[d.id] = true
		if last, found := done[key]; found && n <= last {
			a.Errorf("%s: %d was delivered after %d", key, n, last)
		}
		done[key] = n
	}
	if len(seen) == 0 {
		a.Error("no message with a key was delivered")
	}
}

// lastOf checks that a message that was added to a key of the copy was delivered after those that waited there.
func (a *application) lastOf(key string, id uuid.UUID) {
	a.Helper()
	waited := map[uuid.UUID]bool{}
	for _, row := range all[struct{ ID uuid.UUID }](a, "SELECT id FROM txwork.outbox WHERE concurrency_key = $1 AND id <> $2",
		key, id) {
		waited[row.ID] = true
	}
	if len(waited) < 5 {
		a.Errorf("only %d messages waited in key %s, too few for this test", len(waited), key)
	}
	for _, d := range a.delivered() {
		delete(waited, d.id)
		if d.id == id {
			break
		}
	}
	if len(waited) > 0 {
		a.Errorf("a new message of key %s was delivered before %d that had waited", key, len(waited))
	}
}

// unblock redrives the dead letter that blocks its key, and checks that the others follow it.
func (a *application) unblock() {
	a.Helper()
	ids := all[struct{ ID uuid.UUID }](a, "SELECT id FROM txwork.outbox WHERE concurrency_key = 'dead' ORDER BY key_seq")
	if n := ask[int](a,
		"SELECT count(*) FROM txwork.outbox WHERE concurrency_key = 'dead' AND waiting AND completed_at IS NULL"); n != 2 {
		a.Errorf("%d messages wait behind the dead letter, want 2", n)
	}
	before := len(a.delivered())
	_, err := a.box.Table().On(a.pool).Redrive(a.Context(), []uuid.UUID{ids[0].ID}, "somebody")
	a.ok(err)
	a.until("the key goes on", "SELECT count(*) = 3 FROM txwork.outbox WHERE concurrency_key = 'dead' AND status = 2")
	next := 0
	for _, d := range a.delivered()[before:] {
		if next < len(ids) && d.id == ids[next].ID {
			next++
		}
	}
	if next < len(ids) {
		a.Errorf("only the first %d messages of the redriven key came in their order", next)
	}
}

// duplicate checks that a message that was processed before the copy is not processed again.
func (a *application) duplicate(id string) {
	a.Helper()
	a.ok(a.inTx(func(tx pgx.Tx) error {
		result, err := a.inbox.Receive(a.Context(), workqueue.Pgx(tx), inbox.Message{Consumer: consumer, Source: "a",
			MessageID: id, Payload: []byte("received")})
		if err == nil && result.Answer != inbox.Duplicate {
			a.Errorf("%s is processed again: %v", id, result.Answer)
		}
		return err
	}))
}
