package doctor_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// Expired leases are found behind many older rows that are ready, and with more of these than are read, the check has
// not been made in full.
func TestExpiredLeasesBehindABacklog(t *testing.T) {
	w := newWard(t)
	w.exec("INSERT INTO outbox (topic, payload, due_at) SELECT 'a', '{}', now() - interval '1 day' FROM " +
		"generate_series(1, 5100)")
	w.exec("INSERT INTO outbox (topic, payload, due_at, status, attempts, locked_until, owner_token) SELECT 'a', '{}', " +
		"now() - interval '1 hour', 1, 1, now() - interval '5 minutes', gen_random_uuid() FROM generate_series(1, 3)")
	f := w.finds("expired-leases", []string{"outbox: 3 leases expired"})
	if len(f.Evidence) < 3 {
		t.Errorf("evidence %+v", f.Evidence)
	}
	w.exec("INSERT INTO outbox (topic, payload, due_at) SELECT 'a', '{}', now() - interval '1 day' FROM "+
		"generate_series(1, $1)", survey.RunningRows)
	r, err := doctor.Examine(t.Context(), w.Pool, w.options())
	must(t, err)
	if !slices.ContainsFunc(r.Skipped, func(s doctor.Skipped) bool {
		return s.Check == "expired-leases" && s.Table == "outbox" && strings.Contains(s.Reason, "rows are due")
	}) {
		t.Errorf("skipped %+v", r.Skipped)
	}
}

func TestExpiredLeases(t *testing.T) {
	w := newWard(t)
	ids := w.enqueue(messages("order.placed", 3)...)
	owner := workqueue.NewOwnerToken()
	_, err := w.queue().Claim(t.Context(), owner, time.Minute, 2)
	must(t, err)
	w.goneNow("expired-leases", nil)
	w.exec("UPDATE outbox SET locked_until = now() - interval '5 minutes' WHERE status = 1")

	f := w.finds("expired-leases", []string{"outbox: 2 leases", "5 min", owner.String(), ids[0].String(),
		"order.placed", "no reaper has ever maintained outbox"})
	if f.Severity != doctor.Critical || f.Table != "outbox" || f.Evidence[0].Get("rows") != int64(2) {
		t.Errorf("finding %+v", f)
	}
	w.fixes(f, nil)
	if n := ask[int](w, "SELECT count(*) FROM outbox WHERE status = 0"); n != 3 {
		t.Errorf("%d messages are ready, want all", n)
	}
}

// Lanes are examined separately, whichever is behind.
func TestExpiredLeasesOfAQueue(t *testing.T) {
	w := newWard(t)
	w.enqueueJobs("a", 3)
	w.enqueueJobs("b", 3)
	table := w.jobs.Table()
	owner := workqueue.NewOwnerToken()
	_, err := table.On(w.Pool).Claim(t.Context(), owner, time.Minute, 2, "b", int16(2))
	must(t, err)
	w.exec("UPDATE jobs SET locked_until = now() - interval '5 minutes' WHERE status = 1")
	f := w.finds("expired-leases", []string{"jobs: 2 leases", owner.String(), "letter"})
	w.fixes(f, nil)
}

// The session of a frozen process sends nothing any more.
func TestExpiredLeasesOfASilentProcess(t *testing.T) {
	w := newWard(t)
	w.enqueue(messages("a", 1)...)
	_, err := w.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
	must(t, err)
	w.exec("UPDATE outbox SET locked_until = now() - interval '5 minutes' WHERE status = 1")
	frozen := w.session("frozen worker")
	w.says(frozen, `LISTEN "`+w.Schema+`.outbox"`)
	soon := thresholds(func(th *doctor.Thresholds) { th.Silent = time.Millisecond })
	pid := fmt.Sprintf("{silent_session %d}", frozen.PgConn().PID())
	f := w.finds("expired-leases", []string{pid, "frozen worker"}, soon)
	must(t, frozen.Close(t.Context()))
	w.becomes("the session ends", func() bool { return w.with("expired-leases", []string{pid}, soon) == nil })
	w.fixes(f, nil)
}

// Among idle transactions, only one that has written to the table may belong to the owner.
func TestExpiredLeasesSuspectNobodyElse(t *testing.T) {
	w := newWard(t)
	w.enqueue(messages("a", 2)...)
	_, err := w.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
	must(t, err)
	w.exec("UPDATE outbox SET locked_until = now() - interval '5 minutes' WHERE status = 1")
	soon := thresholds(func(th *doctor.Thresholds) { th.Silent = time.Millisecond })
	for application, statements := range map[string][]string{
		"elsewhere": {"CREATE TABLE other ()", "BEGIN", "INSERT INTO other DEFAULT VALUES"},
		"reader":    {"BEGIN", "SELECT count(*) FROM outbox"},
		"at rest":   {"BEGIN", "COMMIT"},
		"pinged":    {"-- ping"},
		"handler":   {"BEGIN", "SELECT FROM outbox WHERE status = 0 FOR UPDATE"},
		"claimer":   {`UPDATE "` + w.Schema + `"."outbox" AS t SET status = 1 WHERE false`},
	} {
		w.says(w.session(application), statements...)
	}
	var f doctor.Finding
	w.becomes("all are silent", func() bool {
		f = w.finds("expired-leases", []string{"outbox: 1 lease"}, soon)
		return len(f.Evidence) >= 3
	})
	suspects := map[any]any{}
	for _, e := range f.Evidence[1:] {
		suspects[e.Get("application")] = e.Get("possibly_because")
	}
	if len(suspects) != 2 || !strings.Contains(fmt.Sprint(suspects["handler"]), "a handler or of a producer") ||
		!strings.Contains(fmt.Sprint(suspects["claimer"]), "a worker claimed") {
		t.Errorf("suspects are %v", suspects)
	}
	if !strings.Contains(f.Remedy.Do, "possibly") {
		t.Errorf("the remedy does not say that its suspects are uncertain: %s", f.Remedy.Do)
	}
}

func TestNoReaper(t *testing.T) {
	w := newWard(t)
	w.goneNow("no-reaper", nil) // nothing to reap yet
	ids := w.enqueue(messages("a", 1)...)
	owner := workqueue.NewOwnerToken()
	_, err := w.queue().Claim(t.Context(), owner, time.Minute, 1)
	must(t, err)
	f := w.finds("no-reaper", []string{"No reaper maintains outbox", "no reaper has ever maintained outbox"})

	w.mends(f, nil)
	again := func() doctor.Finding {
		w.exec("UPDATE leader SET expires_at = now() - interval '3 hours', granted_at = now() - interval '3 hours'")
		return w.finds("no-reaper", []string{"last ran 3 h ago"})
	}
	round := func() {
		_, err = reaper.RunOnce(t.Context(), w.Pool, w.box.Tables(), reaper.Options{Schema: w.Schema, Logger: quiet})
		must(t, err)
	}
	f = again()
	round()
	w.goneAfter(f, byWord, nil)
	_, err = w.queue().Ack(t.Context(), owner, ids)
	must(t, err)
	f = again()
	round()
	w.goneAfter(f, byWord, nil)
}

// Tenants alone maintain nothing. Their own workers and reapers are no cure, and a process that sees all rows is.
func TestNobodySeesAll(t *testing.T) {
	w := newWard(t)
	w.enqueue(messages("a", 1)...)
	w.goneNow("nobody-sees-all", nil)
	w.exec("ALTER TABLE outbox ENABLE ROW LEVEL SECURITY; CREATE POLICY tenant ON outbox USING (topic = current_user)")
	f := w.finds("nobody-sees-all", []string{"No process that sees all rows maintains outbox", "ever maintained"})
	_, tenant := w.as("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}; " +
		"GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {schema} TO {role}")
	if _, err := reaper.RunOnce(t.Context(), tenant, w.box.Tables(), reaper.Options{Schema: w.Schema,
		Logger: quiet}); err == nil {
		t.Error("a tenant's round succeeds")
	}
	w.finds("nobody-sees-all", []string{"outbox"})
	w.mends(f, nil)
	w.exec("UPDATE leader SET expires_at = now() - interval '3 hours', granted_at = now() - interval '3 hours'")
	f = w.finds("nobody-sees-all", []string{"last ran 3 h ago"})
	_, err := reaper.RunOnce(t.Context(), w.Pool, w.box.Tables(), reaper.Options{Schema: w.Schema, Logger: quiet})
	must(t, err)
	w.goneAfter(f, byWord, nil)
}

// A reaper that runs and cannot do all is named with its reason. Nobody is told to start a reaper.
func TestFailingMaintenance(t *testing.T) {
	w := newWard(t)
	ids := w.enqueue(messages("a", 3)...)
	owner := workqueue.NewOwnerToken()
	_, err := w.queue().Claim(t.Context(), owner, time.Minute, 3)
	must(t, err)
	_, err = w.queue().Ack(t.Context(), owner, ids)
	must(t, err)
	w.exec("UPDATE outbox SET completed_at = now() - interval '30 days'")
	w.exec("CREATE TABLE invoice AS SELECT id FROM outbox LIMIT 1")
	w.exec("ALTER TABLE invoice ADD FOREIGN KEY (id) REFERENCES outbox")
	round := func() error {
		_, err := reaper.RunOnce(t.Context(), w.Pool, w.box.Tables(), reaper.Options{Schema: w.Schema, Logger: quiet})
		return err
	}
	if err := round(); !errors.Is(err, reaper.ErrSkipped) {
		t.Fatalf("error %v, want a skipped row", err)
	}
	f := w.finds("failing-maintenance", []string{"The maintenance of outbox does not do all", "1 rows skipped", "invoice"})
	if old := w.finds("retention", []string{"outbox"}); strings.Contains(old.Remedy.Do, "Start a reaper") {
		t.Errorf("the remedy is to start a reaper, which runs: %s", old.Remedy.Do)
	}
	w.exec("DROP TABLE invoice")
	w.mends(f, nil)
	w.goneNow("retention", nil)
}

func TestRetention(t *testing.T) {
	w := newWard(t)
	ids := w.enqueue(messages("a", 3)...)
	owner := workqueue.NewOwnerToken()
	_, err := w.queue().Claim(t.Context(), owner, time.Minute, 3)
	must(t, err)
	_, err = w.queue().Ack(t.Context(), owner, ids)
	must(t, err)
	w.goneNow("retention", nil)
	w.exec("UPDATE outbox SET completed_at = now() - interval '30 days'")
	f := w.finds("retention", []string{"outbox", "30 days ago", "7 days"})
	w.mends(f, nil)
	if n := ask[int](w, "SELECT count(*) FROM outbox"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}
