package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/reaper"
)

func TestExpiredLeases(t *testing.T) {
	w := newWard(t)
	ids := w.enqueue(messages("order.placed", 3)...)
	owner := uuid.New()
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
	owner := uuid.New()
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
	_, err := w.queue().Claim(t.Context(), uuid.New(), time.Minute, 1)
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
	_, err := w.queue().Claim(t.Context(), uuid.New(), time.Minute, 1)
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
	owner := uuid.New()
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

func TestRetention(t *testing.T) {
	w := newWard(t)
	ids := w.enqueue(messages("a", 3)...)
	owner := uuid.New()
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
