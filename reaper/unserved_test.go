package reaper_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Without a reaper, the claims of a dead worker stay for ever. RunOnce reports the tables that no reaper serves.
func TestTablesThatNobodyServes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	given, forgotten := db.table(workqueue.Spec{Table: "given"}), db.table(workqueue.Spec{Table: "forgotten"})
	db.rows(forgotten, 1, ready)
	db.table(workqueue.Spec{Table: "unused"})
	db.exec("CREATE TABLE " + db.Schema + ".other ()") // not of txwork
	for _, c := range []struct {
		tables []*workqueue.Table
		want   []string
	}{
		{[]*workqueue.Table{given}, []string{forgotten.Name()}},
		{[]*workqueue.Table{given, forgotten}, nil},
	} {
		var log bytes.Buffer
		o := db.options()
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		report, err := reaper.RunOnce(t.Context(), db.Pool, c.tables, o)
		if err != nil || !slices.Equal(report.Unserved, c.want) {
			t.Errorf("%v unserved, %v; want %v", report.Unserved, err, c.want)
		}
		if warned := strings.Contains(log.String(), "level=WARN"); warned != (c.want != nil) ||
			warned && !strings.Contains(log.String(), "forgotten") {
			t.Errorf("logged %s", log.String())
		}
	}
}

// Processes that serve different tables do not warn about each other's tables.
func TestTablesThatAnotherProcessServes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	given, others := db.table(workqueue.Spec{Table: "given"}), db.table(workqueue.Spec{Table: "others"})
	db.rows(others, 1, ready)
	for _, lease := range []string{"1 minute", "-1 hour"} { // a reaper from cron leads only briefly
		db.lead(others, uuid.New(), 1, lease)
		if report := db.runOnce(db.options(), given); len(report.Unserved) != 0 {
			t.Errorf("%v unserved, though a reaper's lease ends in %s", report.Unserved, lease)
		}
		db.exec("UPDATE leader SET expires_at = now() - interval '2 days' WHERE name = '" + others.Name() + "'")
		if report := db.runOnce(db.options(), given); !slices.Equal(report.Unserved, []string{others.Name()}) {
			t.Errorf("%v unserved, want the table whose reaper stopped days ago", report.Unserved)
		}
		db.exec("DELETE FROM leader")
	}
}

// A reaper that keeps running warns only after other reapers have had time to be elected. It warns once about each
// table, including one that gets its first row later.
func TestRunWarnsOfTablesThatNobodyServes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	given, forgotten := db.table(workqueue.Spec{Table: "given"}), db.table(workqueue.Spec{Table: "forgotten"})
	later := db.table(workqueue.Spec{Table: "later"})
	db.rows(forgotten, 1, ready)
	var log logged
	o := db.options()
	o.Logger = log.logger()
	db.run(db.Pool, o, given)
	db.await("warning", func() bool { return strings.Contains(log.String(), "unserved=["+forgotten.Name()+"]") })
	for _, said := range []string{"service.Options.Tables", "reaper.Run"} {
		if !strings.Contains(log.String(), said) {
			t.Errorf("the warning does not name %s: %s", said, log.String())
		}
	}
	if strings.Contains(log.String(), later.Name()) {
		t.Errorf("it warns of a table that nobody uses: %s", log.String())
	}
	db.rows(later, 1, ready)
	db.await("the warning of the other", func() bool {
		return strings.Contains(log.String(), "unserved=["+later.Name()+"]")
	})
	if n := strings.Count(log.String(), forgotten.Name()); n != 1 {
		t.Errorf("it warned %d times of one table: %s", n, log.String())
	}
}

// The method Tables of each domain returns all its tables, so none is left unserved.
func TestTablesOfTheDomainsAreAllServed(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	for _, ddl := range []func(string) (string, string, error){outbox.DDL, inbox.DDL, timers.DDL, jobs.DDL} {
		up, _, err := ddl(db.Schema)
		if err != nil {
			t.Fatal(err)
		}
		db.exec(up)
	}
	box, err := outbox.Open(outbox.Options{Schema: db.Schema})
	in, inErr := inbox.Open(inbox.Options{Schema: db.Schema, DedupWindow: 30 * 24 * time.Hour})
	set, setErr := timers.Open(timers.Options{Schema: db.Schema})
	client, clientErr := jobs.Open(jobs.Options{Schema: db.Schema})
	if err := errors.Join(err, inErr, setErr, clientErr); err != nil {
		t.Fatal(err)
	}
	tables := slices.Concat(box.Tables(), in.Tables(), set.Tables(), client.Tables())
	report, err := reaper.RunOnce(t.Context(), db.Pool, tables, db.options())
	if err != nil || len(report.Unserved) != 0 || len(report.Tables) != 6 {
		t.Errorf("%v unserved of %d, %v", report.Unserved, len(report.Tables), err)
	}
}
