package doctor

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/migrations"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var templates sqltext.Files = sync.OnceValue(func() *template.Template {
	return template.Must(survey.Templates().ParseFS(sqlFiles, "sql/*.sql"))
})

// An examination is one call of Examine.
type examination struct {
	Options
	pool    *pgxpool.Pool
	shared  *survey.Reader // nil: reads do not share a transaction
	current *check
	report  Report
	grantee postgres.Grantee // once a check lacked a right

	skew          time.Duration // how far this machine's clock is ahead of the server's
	roundTrip     time.Duration
	tables        []*table
	unmarked      []string            // tables of the core that lack its comment
	pending       []migrations.Domain // those with pending migrations, once a check has found them
	alarms        *alarmsTable        // once a check has found them
	log           *logTable           // once a check has looked for it
	leaders       *leaders
	hours         *[]survey.HourOfWeek
	vacuumHolders *holders
	announcers    *announcers
	locks         *[]tableLock // sessions in the way of a check, once one has met a lock
}

func (x *examination) reader() survey.Reader {
	if x.shared != nil {
		return *x.shared
	}
	return survey.Reader{From: x.pool, Limit: x.StatementTimeout}
}

// together has what do reads share a transaction.
func (x *examination) together(ctx context.Context, do func(context.Context) error) error {
	return x.reader().Together(ctx, func(r survey.Reader) error {
		x.shared = &r
		defer func() { x.shared = nil }()
		return do(ctx)
	})
}

// read runs do in a bounded transaction.
func (x *examination) read(ctx context.Context, do func(pgx.Tx) error) error {
	return x.reader().Read(ctx, do)
}

// readRows reads the rows of a statement in its own transaction.
func readRows[T any](ctx context.Context, x *examination, file string, data any, args ...any) (all []T, err error) {
	return survey.Rows[T](ctx, x.reader(), sqltext.Statement(templates, file, data), args...)
}

// begin reads what all checks need. Without it nothing can be examined, so on a server that is too busy for the limit
// of a statement it may take the time of the whole examination.
func (x *examination) begin(ctx context.Context) error {
	type server struct {
		Role, Database, Version string
		At                      time.Time
	}
	r := x.reader()
	r.Limit = max(x.StatementTimeout, x.Timeout)
	return r.Read(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT"); err != nil { // so that the next statement takes only one round trip
			return err
		}
		before := x.Now()
		text := sqltext.Statement(templates, "server", nil)
		var s server
		err := tx.QueryRow(ctx, text, pgx.QueryExecModeSimpleProtocol).Scan(&s.Role, &s.Database, &s.Version, &s.At)
		if err != nil {
			return err
		}
		x.roundTrip = x.Now().Sub(before)
		x.skew = before.Add(x.roundTrip / 2).Sub(s.At)
		x.report.Role, x.report.Database, x.report.Server, x.report.At = s.Role, s.Database, s.Version, s.At
		return x.findTables(ctx, tx)
	})
}

func (x *examination) findTables(ctx context.Context, tx pgx.Tx) error {
	all, err := survey.Tables(ctx, tx, x.Schema, maxHead)
	for _, facts := range all {
		x.tables = append(x.tables, &table{Facts: facts})
	}
	if err != nil {
		return err
	}
	unmarked, err := tx.Query(ctx, sqltext.Statement(templates, "unmarked", nil), x.Schema)
	if err != nil {
		return err
	}
	x.unmarked, err = pgx.CollectRows(unmarked, pgx.RowTo[string])
	return err
}

// filtered says that row-level security hides rows from the role.
func (x *examination) filtered() gap {
	return gap{fmt.Sprintf("row-level security shows role %q a part of the rows only", x.report.Role),
		"look as the owner of the tables, or as a role with BYPASSRLS"}
}

// wait separates two looks at what may change in a moment.
func (x *examination) wait(ctx context.Context) error {
	if err := x.reader().Anew(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(300 * time.Millisecond):
		return nil
	}
}

// seconds converts a number of seconds, as the server returns it.
func seconds(s float64) time.Duration { return postgres.Seconds(s) }

// rough formats a duration for people, in whole units that have passed, as those who show evidence do.
func rough(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d/day))
}

// counted formats a number with its noun, which is a lower bound if there may be more.
func counted(n int64, more bool, noun string) string {
	if more {
		return "at least " + plural(n, noun)
	}
	return plural(n, noun)
}

// shown returns the first findings of many alike, the first of which says how many there are.
func (t *table) shown(all []Finding, total int64, more bool, noun string) []Finding {
	if total <= maxShown && !more {
		return all
	}
	all = all[:min(len(all), maxShown)]
	if len(all) > 0 {
		t.head(&all[0], counted(total, more, noun), len(all))
		all[0].total(total, more)
	}
	return all
}

// head makes a finding say of how many alike some are shown.
func (t *table) head(f *Finding, total string, shown int) {
	f.Title = fmt.Sprintf("%s: %s, of which %d are shown; %s", t.Name, total, shown, strings.TrimPrefix(f.Title,
		t.Name+": "))
}

// total adds to the evidence how many were found, of which some are shown.
func (f *Finding) total(n int64, more bool) {
	f.Evidence[0] = append(f.Evidence[0], evidence(totalName("found", more), n)...)
}

// totalName names a number in evidence.
func totalName(name string, more bool) string {
	if more {
		return name + "_at_least"
	}
	return name
}

// plural formats a number with its noun.
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
