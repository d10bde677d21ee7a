package webui

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/internal/zones"
)

// maxSchedules is how many schedules of a table are on a page.
const maxSchedules = 200

// A schedulesPage is what schedules.html shows.
type schedulesPage struct {
	Now    time.Time
	Tables []scheduleTable
	After  string
	Line   timeline
	Spans  []int
}

// Query is the address of the page with another table, position or span.
func (p schedulesPage) Query(table, after string, hours int) template.URL {
	return query("hours", strconv.Itoa(hours), "zone", p.Line.Zone.String(), "table", table, "after", after)
}

// A scheduleTable is schedules of a table in the order of their names.
type scheduleTable struct {
	Name      string
	Triggers  bool // the user sees the table that it writes rows to
	Schedules []scheduleLine
	Next      string // the name after which there are more
	Problem   string
}

// Verbs are what an operator can do to a schedule; nothing in a table of an application's own.
func (s scheduleTable) Verbs(of scheduleLine) (verbs []string) {
	if s.Name != "jobs_schedule" && s.Name != "timers_schedule" {
		return nil
	}
	if verbs = []string{"pause"}; of.Paused {
		verbs = []string{"resume"}
	}
	if s.Triggers {
		verbs = append(verbs, "trigger")
	}
	return verbs
}

// Backfills tells whether occurrences of the past can be written.
func (s scheduleTable) Backfills() bool { return s.Triggers && len(s.Verbs(scheduleLine{})) > 0 }

// rowsOf is the table that the schedules of a table write rows to.
func rowsOf(schedules string) string { return strings.TrimSuffix(schedules, "_schedule") }

// A scheduleLine is a schedule.
type scheduleLine struct {
	ID, Name, Expr, Zone       string
	Paused                     bool
	NextAt, LastAt, BufferedAt *time.Time
	Fired, Skipped             int64
	Misfire, Overlap           string
	Attempts                   int32 // claims that failed in a row
	LastError                  *string

	Marks marks `db:"-"`
}

// Late tells whether its next occurrence should have fired some time ago. The doctor says so from then on, too.
func (s scheduleLine) Late(now time.Time) bool {
	return !s.Paused && s.NextAt != nil && now.Sub(*s.NextAt) > lateFrom
}

// lateFrom is how late an occurrence is that no scheduler has noticed.
const lateFrom = 2 * time.Minute

// zoneOf returns the zone of a name.
func zoneOf(name string) (*time.Location, error) {
	zone, err := zones.Load(name)
	if err != nil || name == "Local" { // which is that of the server
		return nil, operate.Refusal{Field: "zone", Problem: " " + postgres.Name(name) +
			" is not known: name one of the IANA database, such as Europe/Zagreb"}
	}
	return zone, nil
}

// line reads which time line the address asks for.
func (r *request) line() (timeline, error) {
	zone, err := zoneOf(cmp.Or(r.query.Get("zone"), "UTC"))
	if err != nil {
		return timeline{}, err
	}
	hours := 24
	if text := r.query.Get("hours"); text != "" {
		if hours, err = strconv.Atoi(text); err != nil || !slices.Contains(lineHours, hours) {
			return timeline{}, operate.Refusal{Field: "hours", Problem: " must be 6, 24 or 168"}
		}
	}
	return newTimeline(time.Now(), hours, zone), nil
}

// schedules shows the schedules of all tables, or those of one after a name.
func schedules(ctx context.Context, r *request) (view, error) {
	v := view{title: "Schedules", page: "schedules.html"}
	all, err := r.sections(ctx, &v, (*survey.Facts).Schedule)
	if err != nil {
		return view{}, err
	}
	p := schedulesPage{After: r.query.Get("after"), Spans: lineHours}
	if p.Line, err = r.line(); err != nil {
		return view{}, err
	}
	for _, t := range all {
		one := scheduleTable{Name: t.Name, Triggers: has(v.tables, rowsOf(t.Name))}
		if err := one.read(ctx, r.db(), t, p.After, &p.Now); err != nil {
			one.Problem = r.handler.explain(ctx, "schedules of "+t.Name, err).Error()
		}
		if !p.Now.IsZero() {
			p.Line = newTimeline(p.Now, p.Line.Hours, p.Line.Zone) // by the clock of the database
		}
		for i := range one.Schedules {
			s := &one.Schedules[i]
			if s.Marks = p.Line.of(*s); s.LastError != nil {
				*s.LastError = r.handler.errorOf(t.Name, *s.LastError)
			}
		}
		p.Tables = append(p.Tables, one)
	}
	v.data = p
	return v, nil
}

// read reads a page by the unique index of names.
func (s *scheduleTable) read(ctx context.Context, db *operate.DB, t *survey.Facts, after string, now *time.Time) error {
	return db.Read(ctx, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, "SELECT now()").Scan(now); err != nil {
			return err
		}
		found, err := tx.Query(ctx, fmt.Sprintf(`
			SELECT id::text, name, expr, zone, paused, next_at, last_at, buffered_at, fired, skipped, misfire, overlap,
			    attempts, last_error
			FROM %s WHERE name > $1::text ORDER BY name LIMIT %d`, t.Table(), maxSchedules+1), after)
		if err != nil {
			return err
		}
		s.Schedules, err = pgx.CollectRows(found, pgx.RowToStructByPos[scheduleLine])
		if len(s.Schedules) > maxSchedules {
			s.Schedules = s.Schedules[:maxSchedules]
			s.Next = s.Schedules[maxSchedules-1].Name
		}
		return err
	})
}
