package webui

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/survey"
)

// maxSchedules is how many schedules of a table are on a page.
const maxSchedules = 200

// A schedulesPage is what schedules.html shows.
type schedulesPage struct {
	Now    time.Time
	Tables []scheduleTable
	After  string
}

// A scheduleTable is schedules of a table in the order of their names.
type scheduleTable struct {
	Name      string
	Schedules []scheduleLine
	Next      string // the name after which there are more
	Problem   string
}

// A scheduleLine is a schedule.
type scheduleLine struct {
	ID, Name, Expr, Zone string
	Paused               bool
	NextAt, LastAt       *time.Time
	Fired                int64
	LastError            *string
}

// Late tells whether its next occurrence should have fired some time ago. The doctor says so from then on, too.
func (s scheduleLine) Late(now time.Time) bool {
	return !s.Paused && s.NextAt != nil && now.Sub(*s.NextAt) > lateFrom
}

// lateFrom is how late an occurrence is that no scheduler has noticed.
const lateFrom = 2 * time.Minute

// schedules shows the schedules of all tables, or those of one after a name.
func schedules(ctx context.Context, r *request) (view, error) {
	tables, err := r.tables(ctx)
	if err != nil {
		return view{}, err
	}
	facts, err := r.handler.facts(ctx)
	if err != nil {
		return view{}, err
	}
	v := view{title: "Schedules", page: "schedules.html", tables: tables}
	p := schedulesPage{After: r.query.Get("after")}
	for i := range facts {
		t := &facts[i]
		if only := r.query.Get("table"); !t.Schedule() || !has(tables, t.Name) || only != "" && only != t.Name {
			continue
		}
		if t.Filtered {
			v.partial = append(v.partial, t.Name)
		}
		one := scheduleTable{Name: t.Name}
		if err := one.read(ctx, &r.handler.db, t, p.After, &p.Now); err != nil {
			one.Problem = r.handler.explain(ctx, "schedules of "+t.Name, err).Error()
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
			SELECT id::text, name, expr, zone, paused, next_at, last_at, fired, last_error
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
