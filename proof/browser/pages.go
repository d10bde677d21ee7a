package browser

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A Page is one of the dashboard, as a shop has it.
type Page struct {
	Name  string // of its pictures
	Path  string // below the root
	ID    string // a query for an id, which is added to the path
	Shows string // a text that is on it once its figures were read

	Status int // of the answer, if it is an error
}

// Pages are all pages.
var Pages = []Page{
	{Name: "overview", Path: "/", Shows: "Longest running"},
	{Name: "queues", Path: "/queues", Shows: "payments"},
	{Name: "schedules", Path: "/schedules", Shows: "monthly-report"},
	{Name: "dead-letters", Path: "/dead", Shows: "is declined: code …"},
	{Name: "rows", Path: "/t/jobs/failed", Shows: "has expired"},
	{Name: "rows-filtered", Path: "/t/jobs/failed?error=card&kind=charge&newer=12h", Shows: "Show all"},
	{Name: "rows-empty", Path: "/t/timers/failed", Shows: "No row has failed for good."},
	{Name: "row", Path: "/t/outbox/row/", Shows: `"EUR"`,
		ID: "SELECT id FROM txwork.outbox WHERE status = 2 ORDER BY id LIMIT 1"},
	{Name: "row-dead", Path: "/t/jobs/row/", Shows: "Last error",
		ID: "SELECT id FROM txwork.jobs WHERE status = 3 ORDER BY id LIMIT 1"},
	{Name: "row-running", Path: "/t/jobs/row/", Shows: "process",
		ID: "SELECT id FROM txwork.jobs WHERE status = 1 ORDER BY id LIMIT 1"},
	{Name: "history", Path: "/history?table=jobs", Shows: "jobs"},
	{Name: "audit", Path: "/audit", Shows: "90 days"},
	{Name: "keys", Path: "/keys", Shows: "Blocked by a dead letter"},
	{Name: "joins", Path: "/joins", Shows: "close the month"},
	{Name: "workflow", Path: "/joins/jobs/", Shows: "reconcile the books",
		ID: "SELECT id FROM txwork.jobs_join WHERE label = 'close the month'"},
	{Name: "inbox", Path: "/inbox", Shows: "bank"},
	{Name: "processes", Path: "/processes", Shows: "jobs"},
	{Name: "maintenance", Path: "/maintenance", Shows: "Oldest transactions"},
	{Name: "log-missing", Path: "/logs", Shows: "no outbox that is a log"},
	{Name: "alarms", Path: "/alarms", Shows: "No alarm is active."},
	{Name: "find", Path: "/find?q=customer-7", Shows: "is no id"},
	{Name: "not-found", Path: "/t/nothing/ready", Shows: "What to do:", Status: 404},
}

// Of returns the page's path in a shop.
func (p Page) Of(ctx context.Context, s *Shop) (string, error) {
	if p.ID == "" {
		return p.Path, nil
	}
	var id string
	err := s.Pool.QueryRow(ctx, p.ID).Scan(&id)
	if err == pgx.ErrNoRows {
		err = fmt.Errorf("page %s: the shop has no such row", p.Name)
	}
	return p.Path + id, err
}
