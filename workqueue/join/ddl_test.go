package join_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

func TestDownLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	spec := f.table.Spec()
	_, tableDown, err := spec.DDL()
	f.ok(err)
	_, joinDown, err := join.DDL(spec)
	f.ok(err)
	f.exec(joinDown)
	row, token := f.steps(1, due), workqueue.NewOwnerToken() // the table works without joins
	_, err = f.queue.Claim(t.Context(), token, time.Minute, 1)
	f.ok(err)
	_, err = f.queue.Ack(t.Context(), token, row)
	f.ok(err)
	f.exec(tableDown)
	left := ask[int](f, `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace)
		+ (SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace)`, f.Schema)
	if left != 0 {
		t.Errorf("%d objects are left", left)
	}
}

// Names that derive from the longest table name stay within PostgreSQL's limit, and reserved words work.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"order", strings.Repeat("x", 32)} {
		f := newFixture(t, func(s *workqueue.Spec) { s.Table = name })
		long := ask[string](f, `SELECT coalesce(string_agg(name, ', '), '') FROM (
			SELECT relname::text FROM pg_class WHERE relnamespace = $1::regnamespace
			UNION ALL SELECT proname::text FROM pg_proc WHERE pronamespace = $1::regnamespace
			UNION ALL SELECT tgname::text FROM pg_trigger WHERE tgrelid = ANY (ARRAY(SELECT oid FROM pg_class WHERE relnamespace = $1::regnamespace)) AND NOT tgisinternal
		) AS n (name) WHERE length(name) - length($2) > 15`, f.Schema, name)
		if long != "" {
			t.Errorf("longer than _attempts_check: %s", long)
		}
		f.exec(`SELECT "` + name + `_join_sweep"()`)
		if _, err := f.Pool.Exec(t.Context(), `SELECT "`+name+`_join_sweep"(0)`); err == nil {
			t.Error("a sweep of no rows is not refused")
		}
	}
}

func TestSpecWithoutTheColumn(t *testing.T) {
	t.Parallel()
	spec := stepSpec("s")
	withoutFold := spec
	withoutFold.Folds = nil
	if _, _, err := join.DDL(withoutFold); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("DDL without the fold: got the error %v", err)
	}
	spec.Columns, spec.Folds = spec.Columns[:1], nil
	if _, _, err := join.DDL(spec); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("DDL: got the error %v", err)
	}
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := join.Open(table); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("Open: got the error %v", err)
	}
	if _, err := join.Open(nil); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("Open of nil: got the error %v", err)
	}
}

// Only the owner may call the functions until they are granted.
func TestFunctionsAreNotPublic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	open := ask[int](f, "SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace AND proname LIKE "+
		"'steps_join%' AND (proacl IS NULL OR proacl::text ~ '[{,]=X')", f.Schema)
	if open != 0 {
		t.Errorf("%d functions are PUBLIC's", open)
	}
}

func TestNamesOfValues(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		join.Pending.String(): "pending", join.Completed.String(): "completed", join.Failed.String(): "failed",
		join.Cancelled.String(): "cancelled", join.Status(9).String(): "status(9)",
		join.WaitAll.String(): "wait_all", join.FailFast.String(): "fail_fast", join.AnyOutcome.String(): "any_outcome",
		join.None.String(): "none", join.StepSucceeded.String(): "succeeded", join.StepFailed.String(): "failed",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
