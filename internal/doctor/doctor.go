package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue/validate"
)

// A Report is what one examination has found.
type Report struct {
	Schema   string              `json:"schema"`
	Database string              `json:"database"`
	Server   string              `json:"server"` // the version of PostgreSQL
	Role     string              `json:"role"`
	At       time.Time           `json:"at"` // by the database's clock
	Took     time.Duration       `json:"-"`
	Absent   []migrations.Domain `json:"absent"`   // domains that the schema does not have; they are not examined
	Findings []Finding           `json:"findings"` // the most severe first
	Skipped  []Skipped           `json:"skipped"`  // checks that were not made, or not in full
}

// Complete tells whether every check was made in full. Without findings, only a complete examination means that nothing
// is wrong.
func (r Report) Complete() bool { return len(r.Skipped) == 0 }

// Worst is the severity of the first finding; empty if there are no findings.
func (r Report) Worst() Severity {
	if len(r.Findings) == 0 {
		return ""
	}
	return r.Findings[0].Severity
}

// Count returns how many findings have a severity.
func (r Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Examine runs every check once. It changes nothing and also works on a standby. An error says why nothing could be
// examined; errors of single checks are in the report.
func Examine(ctx context.Context, pool *pgxpool.Pool, o Options) (Report, error) {
	if pool == nil {
		return Report{}, validate.Errorf("pool", "is nil")
	}
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	o = o.withDefaults()
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	x := &examination{pool: pool, Options: o, report: Report{Schema: o.Schema, Findings: []Finding{},
		Skipped: []Skipped{}, Absent: []migrations.Domain{}}}
	if err := x.together(ctx, x.begin); err != nil {
		return x.report, fmt.Errorf("txwork: doctor: looking at the server: %w", err)
	}
	err := x.runAll(ctx)
	x.sort()
	x.report.Took = time.Since(start)
	return x.report, err
}

// sort puts what was found and what was skipped in the order of the checks, and the most severe findings first.
func (x *examination) sort() {
	place := map[string]int{}
	for i, c := range checks {
		place[c.code] = i
	}
	slices.SortStableFunc(x.report.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(place[a.Code], place[b.Code]))
	})
	slices.SortStableFunc(x.report.Skipped, func(a, b Skipped) int {
		return cmp.Compare(place[a.Check], place[b.Check])
	})
}

// runAll runs some of the checks beside the others, on a connection of their own. Where the server or the pool has no
// second one, they run afterwards. Those of the server come first: one counts connections.
func (x *examination) runAll(ctx context.Context) error {
	second := x.beside()
	var beside sync.WaitGroup
	ran, failed := false, error(nil)
	err := x.runSome(ctx, serverChecks, otherChecks, func() {
		beside.Go(func() {
			if conn, err := x.pool.Acquire(ctx); err == nil {
				conn.Release()
				ran, failed = true, second.runBeside(ctx)
			}
		})
	})
	if beside.Wait(); !ran && err == nil {
		failed = second.runBeside(ctx)
	}
	x.report.Absent = append(x.report.Absent, second.report.Absent...)
	x.report.Findings = append(x.report.Findings, second.report.Findings...)
	x.report.Skipped = append(x.report.Skipped, second.report.Skipped...)
	return cmp.Or(err, failed)
}

// beside returns an examination of the same, which shares nothing that checks change.
func (x *examination) beside() *examination {
	second := *x
	second.report.Findings, second.report.Skipped, second.report.Absent = nil, nil, nil
	second.tables = make([]*table, len(x.tables))
	for i, t := range x.tables {
		copied := *t
		second.tables[i] = &copied
	}
	return &second
}

// runBeside runs the checks that run beside the others. The first takes connections by itself, so it shares no
// transaction.
func (x *examination) runBeside(ctx context.Context) error {
	if err := x.runEach(ctx, besideChecks[:1]); err != nil {
		return err
	}
	return x.runSome(ctx, nil, besideChecks[1:], func() {})
}

// runSome runs checks that share a transaction. It calls between after the first of them.
func (x *examination) runSome(ctx context.Context, first, then []check, between func()) error {
	begun := false
	err := x.together(ctx, func(ctx context.Context) error {
		begun = true
		if err := x.runEach(ctx, first); err != nil {
			return err
		}
		between()
		return x.runEach(ctx, then)
	})
	if !begun { // each check says that it cannot look
		return cmp.Or(x.runEach(ctx, first), x.runEach(ctx, then))
	}
	return err
}

// runEach runs checks unless they are to be ignored.
func (x *examination) runEach(ctx context.Context, some []check) error {
	for i, c := range some {
		if slices.Contains(x.Ignore, c.code) {
			continue
		}
		if err := ctx.Err(); errors.Is(err, context.Canceled) {
			return err
		}
		x.run(ctx, &some[i])
	}
	return nil
}

// run runs a check and adds its findings.
func (x *examination) run(ctx context.Context, c *check) {
	x.current = c
	if ctx.Err() != nil {
		x.skip(ctx, c.code, "", ctx.Err())
		return
	}
	found, err := c.look(ctx, x)
	if err != nil {
		x.skip(ctx, c.code, "", err)
	}
	for _, f := range found {
		f.Code, f.Fixable = c.code, f.Fixable && c.fixes
		f.Severity = cmp.Or(f.Severity, c.severity)
		f.Meaning = cmp.Or(f.Meaning, c.meaning)
		if f.Evidence == nil {
			f.Evidence = []Evidence{}
		}
		f.Remedy.Commands, f.Remedy.SQL = orNone(f.Remedy.Commands), orNone(f.Remedy.SQL)
		x.report.Findings = append(x.report.Findings, f)
	}
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// grant says how the role gets the rights to see what an examination reads.
func (x *examination) grant(ctx context.Context) string {
	if x.grantee.Role == "" {
		err := x.read(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, postgres.SelectGrantee, "viewer", x.Schema).Scan(x.grantee.Fields()...)
		})
		if err != nil {
			return "run it again: what the role may do could not be read: " + oneLine(err.Error())
		}
	}
	return x.grantee.Grant("viewer", x.Schema)
}

// A gap is why a check was not made in full, although no statement failed.
type gap struct{ reason, remedy string }

func (g gap) Error() string { return g.reason }

// skip records a check that was not made, or not in full: why, who is in the way, and what to do about it. Whatever
// keeps a check from seeing everything that it concludes from must come here, because a report without findings and
// without skipped checks says that nothing is wrong.
func (x *examination) skip(ctx context.Context, code, table string, err error) {
	s := Skipped{Check: code, Table: table, Reason: err.Error()}
	var pg *pgconn.PgError
	var partial gap
	switch {
	case errors.As(err, &partial):
		s.Reason, s.Remedy = partial.reason, partial.remedy
	case errors.Is(err, context.DeadlineExceeded):
		s.Reason = fmt.Sprintf("the examination took longer than %v", x.Timeout)
		s.Remedy = "raise the timeout"
	case errors.As(err, &pg):
		s.Reason = pg.Message
		switch pg.Code {
		case "42P01", "42703", "42883", "3F000": // undefined table, column, function, schema
			s.Remedy = "run the SQL that " + postgres.Command(x.Schema, "migrate", "validate") +
				" prints: it makes what is missing"
		case "42501":
			s.Remedy = x.grant(ctx)
		case "57014":
			s.Reason = fmt.Sprintf("a statement took longer than %v", x.StatementTimeout)
			s.Remedy = "raise the statement timeout"
		case "55P03":
			s.Reason = fmt.Sprintf("a table was locked for longer than %v", survey.LockLimit)
			s.Remedy, s.Holders = x.lockHolders(ctx, table)
		}
	}
	if !slices.ContainsFunc(x.report.Skipped, s.same) {
		x.report.Skipped = append(x.report.Skipped, s)
	}
}
