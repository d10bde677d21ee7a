package jobs_test

import (
	"testing"

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
		err := db.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace)
			+ (SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace)`, db.Schema).Scan(&n)
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

func TestTheDefaultSchemaIsNamed(t *testing.T) {
	t.Parallel()
	if _, _, err := jobs.DDL(""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := jobs.DDL("No Schema"); err == nil {
		t.Error("a schema that is no identifier was accepted")
	}
}
