package browser

import (
	"context"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/webui"
)

// A Page is one of the dashboard, as a shop has it.
type Page struct {
	Name  string // of its pictures
	Path  string // below the root
	ID    string // a query for an id, which is added to the path
	Shows string // a text that is on it once its figures were read

	Status int // of the answer, if it is an error

	Schema string // of its tables. Default: that of the shop
	Acts   bool   // an operator sees it, who may act
}

// configure makes a dashboard one that has the page.
func (p Page) configure(c *webui.Config) {
	c.Schema = p.Schema
	if p.Acts {
		c.Insecure, c.Actions = false, true
		c.Authenticate = func(*http.Request) (webui.User, error) {
			return webui.User{Name: "ann", Role: webui.Operator}, nil
		}
	}
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
	{Name: "alarms-none", Path: "/alarms", Shows: "No alarm is active."},
	{Name: "find", Path: "/find?q=customer-7", Shows: "is no id"},
	{Name: "log", Path: "/logs", Shows: "Losses", Schema: warehouse},
	{Name: "message", Path: "/logs/", Shows: `"order"`, Schema: warehouse,
		ID: "SELECT id FROM warehouse.outbox_log LIMIT 1"},
	{Name: "parked", Path: "/t/outbox_log_parked/ready?subscription=search", Shows: "order.placed", Schema: warehouse},
	{Name: "message-missing", Path: "/logs/00000000-0000-7000-8000-000000000000", Shows: "The message is not there",
		Status: 404, Schema: warehouse},
	{Name: "alarms", Path: "/alarms", Shows: "stand-up", Schema: warehouse},
	{Name: "rows-acting", Path: "/t/outbox/failed?topic=letters", Shows: "All that match the filter", Schema: warehouse,
		Acts: true},
	{Name: "ask", Path: "/t/outbox/failed/redrive?topic=letters", Shows: "9 rows that are", Schema: warehouse,
		Acts: true},
	{Name: "action", Path: "/audit/", Shows: "1,400 of 1,400", Schema: warehouse, Acts: true,
		ID: "SELECT action FROM warehouse.audit LIMIT 1"},
	{Name: "audit-actions", Path: "/audit", Shows: "discard", Schema: warehouse, Acts: true},
	{Name: "backfill", Path: "/schedules/backfill?table=jobs_schedule&schedule=monthly-report" +
		"&from=2026-01-15T00:00:00&to=2026-05-15T00:00:00&zone=Europe/Zagreb", Shows: "of the 4 rows of this range",
		Acts: true},
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
