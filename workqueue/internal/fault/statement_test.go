package fault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/fault"
)

func state(code string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}) }

// What the core does after an error follows from these answers.
func TestErrorsOfStatements(t *testing.T) {
	t.Parallel()
	stale := &pgconn.PgError{Code: "0A000", Routine: "RevalidateCachedQuery"}
	standby := &pgconn.PgError{Code: "0A000", Routine: "call_bool_check_hook"}
	for _, c := range []struct {
		name  string
		err   error
		is    string // the predicates that hold
		cause fault.Cause
		typ   string
	}{
		{"none", nil, "", fault.Away, ""},
		{"a serialization failure", state("40001"), "conflict", fault.Away, "40001"},
		{"a deadlock", state("40P01"), "conflict", fault.Away, "40P01"},
		{"a statement prepared before DDL", stale, "conflict", fault.Refused, "0A000"},
		{"what a server does not support", state("0A000"), "", fault.Refused, "0A000"},
		{"a taken value", state("23505"), "taken", fault.Refused, "23505"},
		{"another constraint", state("23514"), "", fault.Refused, "23514"},
		{"a locked row", state("55P03"), "locked", fault.Waited, "55P03"},
		{"a statement that took too long", state("57014"), "", fault.Waited, "57014"},
		{"no memory", state("53200"), "outage", fault.Waited, "53200"},
		{"no disk", state("53100"), "outage", fault.Away, "53100"},
		{"a shutdown", state("57P01"), "outage", fault.Away, "57P01"},
		{"a standby", standby, "outage", fault.Refused, "0A000"},
		{"a standby, explained", fault.Explain(standby), "outage", fault.Away, "0A000"},
		{"a text that the encoding lacks", state("22P05"), "untranslatable", fault.Refused, "22P05"},
		{"a right that is missing", state("42501"), "", fault.Refused, "42501"},
		{"a lost connection", errors.New("unexpected EOF"), "outage", fault.Away, "_OTHER"},
		{"no answer in time", context.DeadlineExceeded, "outage", fault.Away, "timeout"},
		{"a caller that left", context.Canceled, "", fault.Away, "canceled"},
		{"a table that is missing", fault.Explain(state("42P01")), "misfit", fault.Refused, "42P01"},
		{"a session in another encoding", fmt.Errorf("%w: its client_encoding is LATIN1", fault.ErrSession),
			"misfit outage",
			fault.Away, "_OTHER"},
		{"a lost lease", fault.ErrLeaseLost, "void", fault.Away, "lease_lost"},
		{"a row that is gone", fmt.Errorf("wrapped: %w", fault.ErrGone), "void", fault.Away, "gone"},
		{"input that is refused", fault.ErrInvalid, "", fault.Away, "invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for name, is := range map[string]func(error) bool{"conflict": fault.IsConflict, "taken": postgres.IsTaken,
				"locked": fault.IsLocked, "untranslatable": fault.IsUntranslatable, "outage": fault.IsOutage,
				"void": fault.IsVoid, "misfit": fault.IsMisfit} {
				if is(c.err) != slices.Contains(strings.Fields(c.is), name) {
					t.Errorf("%s: %v, want it for %q only", name, is(c.err), c.is)
				}
			}
			if got := fault.CauseOf(c.err); got != c.cause {
				t.Errorf("its cause is %d, want %d", got, c.cause)
			}
			if got := fault.Type(c.err); got != c.typ {
				t.Errorf("its type is %q, want %q", got, c.typ)
			}
			if want := c.err != nil && c.is != "void"; fault.IsUnsettled(c.err) != want {
				t.Errorf("unsettled: %v, want %v", !want, want)
			}
		})
	}
}

// broken is an error of an application whose methods panic.
type broken struct{}

func (broken) Error() string   { return "broken" }
func (broken) Is(error) bool   { panic("Is") }
func (broken) As(any) bool     { panic("As") }
func (e broken) Unwrap() error { panic("Unwrap") }

// An error may contain one of the application, from a hook of its pool for example.
func TestErrorsWhoseMethodsPanic(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("a hook of the pool: %w", broken{})
	if fault.IsConflict(err) || fault.IsVoid(err) || fault.IsMisfit(err) || fault.Type(err) != "_OTHER" ||
		fault.CauseOf(err) != fault.Away || !errors.Is(fault.Explain(err), err) {
		t.Error("an error whose methods panic is taken for one of the database")
	}
}
