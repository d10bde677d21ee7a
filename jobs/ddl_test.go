package jobs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
)

func TestDDLGoesUpAndDownAndUp(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up, down, err := jobs.DDL(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	left := func() (n int) {
		t.Helper()
		err := db.Pool.QueryRow(t.Context(),
			`SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace)
			+ (SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace)
			+ (SELECT count(*) FROM pg_type WHERE typnamespace = $1::regnamespace)`, db.Schema).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, statements := range []string{up, down, up, down} {
		if _, err := db.Pool.Exec(t.Context(), statements); err != nil {
			t.Fatalf("%v\n%s", err, statements)
		}
	}
	equal(t, "left", left(), 0)
}

// Applications may write jobs with SQL. Constraints with these names then check what the library would check.
func TestWhatSQLWritesIntoJobsIsChecked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up, _, err := jobs.DDL(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), up); err != nil {
		t.Fatal(err)
	}
	insert := "INSERT INTO jobs (kind, queue, priority, progress, args) VALUES ($1::text, $2::text, $3::smallint, " +
		"$4::smallint, '{}')"
	long := strings.Repeat("k", jobs.MaxKind+1)
	for _, c := range []struct {
		kind, queue        string
		priority, progress int
		constraint         string
	}{
		{"k", "q", 1, 0, ""},
		{long[1:], long[1:], 3, 100, ""},
		{"", "q", 1, 0, "jobs_kind_check"},
		{long, "q", 1, 0, "jobs_kind_check"},
		{"k", "", 1, 0, "jobs_queue_check"},
		{"k", long, 1, 0, "jobs_queue_check"},
		{"k", "q", 0, 0, "jobs_priority_check"},
		{"k", "q", 4, 0, "jobs_priority_check"},
		{"k", "q", 1, -1, "jobs_progress_check"},
		{"k", "q", 1, 101, "jobs_progress_check"},
	} {
		_, err := db.Pool.Exec(t.Context(), insert, c.kind, c.queue, c.priority, c.progress)
		var refused *pgconn.PgError
		switch errors.As(err, &refused); {
		case c.constraint == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.constraint != "" && (refused == nil || refused.Code != "23514" ||
			refused.ConstraintName != c.constraint):
			t.Errorf("%+v: error %v, want a violation of %s", c, err, c.constraint)
		}
	}
	if _, err := db.Pool.Exec(t.Context(), "UPDATE jobs SET queue = ''"); err == nil {
		t.Error("an update to an empty queue was accepted")
	}
}

func TestTheDefaultSchemaIsNamed(t *testing.T) {
	t.Parallel()
	if _, _, err := jobs.DDL(""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := jobs.DDL("No Schema"); err == nil {
		t.Error("a schema that is no identifier was accepted")
	}
}
