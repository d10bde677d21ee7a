package inbox_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/workqueue"
)

func (f *fixture) purge() inbox.Purged {
	f.Helper()
	purged, err := f.box.Purge(f.Context(), f.Pool)
	if err != nil {
		f.Fatal(err)
	}
	return purged
}

// finish settles received messages as a worker would.
func (f *fixture) finish(status workqueue.Status, results ...inbox.Result) {
	f.Helper()
	owner := workqueue.NewOwnerToken()
	queue := f.box.Table().On(f.Pool)
	rows, err := queue.Claim(f.Context(), owner, time.Minute, len(results), "billing")
	if err != nil {
		f.Fatal(err)
	}
	ids := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	if status == workqueue.Failed {
		_, err = queue.Fail(f.Context(), owner, ids, "broken")
	} else {
		_, err = queue.Ack(f.Context(), owner, ids)
	}
	if err != nil || len(rows) != len(results) {
		f.Fatalf("claimed %d of %d: %v", len(rows), len(results), err)
	}
}

func TestTheLifeOfAKey(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	m := message("1", "a")
	m.Headers = map[string]string{"a": "b"}
	first := f.receive(m)[0]
	f.finish(workqueue.Done, first)

	f.age(day - time.Minute)
	if got := f.purge(); got != (inbox.Purged{}) {
		t.Errorf("before the retention is over: purged %+v", got)
	}
	f.age(time.Minute)
	if got := f.purge(); got != (inbox.Purged{Stripped: 1}) {
		t.Errorf("after it: purged %+v", got)
	}
	r := f.row(first.ID)
	if r.HasPayload || r.Headers != nil || r.Status != workqueue.Done || !slices.Equal(r.Hash, hash("a")) {
		t.Errorf("the tombstone is %+v", r)
	}
	want := inbox.Result{Answer: inbox.Duplicate, ID: first.ID, Status: workqueue.Done}
	if a, b := f.process(key("1")), f.receive(m)[0]; a != want || b != want {
		t.Errorf("the tombstone says %+v and %+v, want %+v", a, b, want)
	}
	if got := f.receive(message("1", "b"))[0]; got.Answer != inbox.HashMismatch {
		t.Errorf("to another body the tombstone says %+v", got)
	}

	f.age(6*day - time.Minute)
	if got := f.purge(); got != (inbox.Purged{}) {
		t.Errorf("before the window is over: purged %+v", got)
	}
	f.age(time.Minute)
	if got := f.purge(); got != (inbox.Purged{Tombstones: 1}) {
		t.Errorf("after it: purged %+v", got)
	}
	if got := f.process(key("1")); got.Answer != inbox.Processed {
		t.Errorf("after the window: got %+v", got)
	}
}

func TestDeadLettersKeepTheirPayloadAndTheirKey(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	first := f.receive(message("1", "a"))[0]
	f.finish(workqueue.Failed, first)
	f.age(1000 * day)
	if got := f.purge(); got != (inbox.Purged{}) {
		t.Errorf("purged %+v", got)
	}
	if r := f.row(first.ID); string(r.Payload) != "a" {
		t.Errorf("the payload is %q", r.Payload)
	}
}

func TestDeadLettersGoWhenThatIsWanted(t *testing.T) {
	t.Parallel()
	f := newInbox(t, func(o *inbox.Options) { o.FailedRetention = 8 * day })
	f.finish(workqueue.Failed, f.receive(message("1", "a"))[0])
	f.age(8*day - time.Minute)
	if got := f.purge(); got != (inbox.Purged{}) {
		t.Errorf("too early: purged %+v", got)
	}
	f.age(time.Minute)
	if got := f.purge(); got != (inbox.Purged{Failed: 1}) {
		t.Errorf("purged %+v", got)
	}
}

func TestWhatIsNotDoneIsNeverStripped(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	f.receive(message("ready", "a"))
	f.exec("UPDATE " + f.table +
		" SET created_at = created_at - interval '1 year', due_at = due_at - interval '1 year'")
	if got := f.purge(); got != (inbox.Purged{}) {
		t.Errorf("purged %+v", got)
	}
}

func TestTheOptionsOwnRetention(t *testing.T) {
	t.Parallel()
	for retention, sweeps := range map[time.Duration]int{time.Hour: 1, 3 * day: 0} {
		t.Run(retention.String(), func(t *testing.T) {
			t.Parallel()
			f := newInbox(t, func(o *inbox.Options) { o.Retention = retention })
			f.finish(workqueue.Done, f.receive(message("1", "a"))...)
			f.age(retention - time.Minute)
			if got := f.purge(); got.Stripped != 0 {
				t.Errorf("too early: purged %+v", got)
			}
			f.age(time.Minute)
			if got := f.purge(); got.Stripped != 1 {
				t.Errorf("purged %+v", got)
			}
			if got := f.box.Table().Spec().Sweeps; len(got) != sweeps {
				t.Errorf("sweeps %v: the function of the migration must not strip before the retention is over", got)
			}
		})
	}
}

// The reaper and the workers call the table's SQL function, which does not know the options.
func TestTheSweepStrips(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	stored := f.receive(message("1", "a"), message("2", "b"), message("3", "c"))
	f.finish(workqueue.Done, stored...)
	f.age(day)
	queue := f.box.Table().On(f.Pool)
	for _, want := range []int{2, 1, 0} {
		if n, err := queue.Sweep(t.Context(), 2); err != nil || n != want {
			t.Errorf("swept %d, %v, want %d", n, err, want)
		}
	}
}

func TestStripFunctionRefusesBadInput(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	for _, args := range []string{"0", "NULL", "1, NULL", "1, interval '-1 second'"} {
		if _, err := f.Pool.Exec(t.Context(), "SELECT inbox_strip("+args+")"); err == nil {
			t.Errorf("took %s", args)
		}
	}
}

func TestLockedRowsAreLeftToTheNextStrip(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	stored := f.receive(message("1", "a"), message("2", "b"))
	f.finish(workqueue.Done, stored...)
	f.age(day)
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+f.table+" WHERE id = $1 FOR UPDATE", stored[0].ID); err != nil {
		t.Fatal(err)
	}
	if got := f.purge(); got.Stripped != 1 {
		t.Errorf("purged %+v, want the one that is not locked", got)
	}
}

// However many tombstones there are, a strip reads only the rows that it strips.
func TestStripDoesNotReadTombstones(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	const tombstones, payloads = 20_000, 50
	f.exec(fmt.Sprintf(`INSERT INTO %s (status, attempts, completed_at, consumer, source, message_id, payload)
		SELECT 2, 1, now() - interval '2 days' + n * interval '1 second', 'billing', 'shop', n::text, CASE WHEN n > %d THEN 'x'::bytea END
		FROM generate_series(1, %d) AS n`, f.table, tombstones, tombstones+payloads))
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var stripped, bySequence, byIndex int
	if err := tx.QueryRow(t.Context(), "SELECT inbox_strip(1000)").Scan(&stripped); err != nil {
		t.Fatal(err)
	}
	err = tx.QueryRow(t.Context(), "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = "+
		"$1::regclass", f.table).Scan(&bySequence, &byIndex)
	if err != nil || stripped != payloads || bySequence != 0 || byIndex > 3*payloads {
		t.Errorf("stripped %d; read %d rows by scans and %d by index (%v)", stripped, bySequence, byIndex, err)
	}
}
