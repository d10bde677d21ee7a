package pages

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/workqueue"
)

// deep is how many rows are before the page that is asked for far behind the first: page 1,000.
const deep = 999 * 50

// An ask is an address of the dashboard.
type ask struct {
	Path string
	Deep bool // it is page 1,000, or the last
}

// asks are all pages with every filter. They are those of the dashboard's routes.
func (d *data) asks(ctx context.Context) (all []ask, err error) {
	for _, path := range []string{"/", "/queues", "/history", "/history?range=day", "/history?range=week",
		"/history?table=jobs&range=hour", "/history?table=jobs&lane=queue-0&range=day",
		"/history?table=jobs&lane=queue-0&range=week",
		"/schedules", "/schedules?hours=6", "/schedules?hours=168&zone=Europe/Zagreb",
		"/schedules?table=timers_schedule",
		"/logs", "/inbox", "/inbox?table=inbox&consumer=consumer-9&source=source-9", "/alarms", "/maintenance",
		"/processes",
		"/keys", "/keys?table=jobs", "/keys?table=outbox", "/joins", "/joins?status=completed", "/joins?status=failed",
		"/joins?status=cancelled", "/joins?table=jobs&label=batch+0",
		"/joins?status=completed&table=jobs&label=batch+7",
		"/joins?status=completed&label=nothing", "/dead", "/dead?table=jobs", "/audit", "/audit?who=operator-3",
		"/audit?verb=redrive", "/audit?table=jobs",
		"/audit?newer=1h", "/audit?who=nobody", "/audit?verb=redrive&table=jobs&newer=7d", "/find?q=customer-7",
		"/find?q=00000000-0000-7000-8000-000000000000", "/t/nothing/ready"} {
		all = append(all, ask{Path: path})
	}
	for _, of := range []struct {
		deep         bool
		format, find string
	}{
		{true, "/keys?table=jobs&after=%s", "SELECT 'customer-9'"},
		{true, "/schedules?table=jobs_schedule&after=%s", "SELECT 'schedule-2400'"},
		{true, "/joins?status=completed&after=%s", "SELECT min(id::text) FROM (SELECT id FROM txwork.jobs_join " +
			"ORDER BY id DESC LIMIT 49950) AS j"},
		{true, "/audit?after=%s", "SELECT max(id)::text FROM (SELECT id FROM txwork.audit ORDER BY id LIMIT 100) AS a"},
		{false, "/audit/%s", "SELECT action::text FROM txwork.audit ORDER BY id DESC LIMIT 1"},
		{false, "/joins/jobs/%s", "SELECT id::text FROM txwork.jobs_join WHERE label = 'largest'"},
		{false, "/joins/jobs/%s?state=ready", "SELECT id::text FROM txwork.jobs_join WHERE label = 'largest'"},
		{false, "/joins/jobs/%s", "SELECT id::text FROM txwork.jobs_join WHERE status = 0 LIMIT 1"},
		{false, "/joins/jobs/%s", "SELECT id::text FROM txwork.jobs_join WHERE status = 1 LIMIT 1"},
	} {
		if all, err = d.found(ctx, all, of.deep, of.format, of.find); err != nil {
			return nil, err
		}
	}
	for _, table := range []string{"jobs", "outbox", "inbox", "timers", "jobs_schedule", "timers_schedule"} {
		if all, err = d.lists(ctx, all, table); err != nil {
			return nil, err
		}
		for _, state := range []string{"completed_at IS NULL AND NOT waiting AND status = 0",
			"completed_at IS NULL AND NOT waiting AND status = 1", "completed_at IS NULL AND waiting",
			"failed_at IS NOT NULL", "status = 2"} {
			find := "SELECT id::text FROM txwork." + table + " WHERE " + state + " LIMIT 1"
			if all, err = d.found(ctx, all, false, "/t/"+table+"/row/%s", find); err != nil {
				return nil, err
			}
		}
		if all, err = d.found(ctx, all, false, "/find?q=%s", "SELECT min(id::text) FROM txwork."+table); err != nil {
			return nil, err
		}
	}
	return append(all, ask{Path: "/t/jobs/row/00000000-0000-7000-8000-000000000000"}), nil
}

// found adds an address with what a query finds, if it finds something.
func (d *data) found(ctx context.Context, all []ask, deep bool, format, find string) ([]ask, error) {
	var value *string
	err := d.Pool.QueryRow(ctx, find).Scan(&value)
	if err == pgx.ErrNoRows || err == nil && value == nil {
		return all, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", find, err)
	}
	return append(all, ask{fmt.Sprintf(format, url.QueryEscape(*value)), deep}), nil
}

// filters of each table: alone, and in pairs.
var filters = map[string][]string{
	"jobs": {"kind=kind-0", "kind=kind-59", "kind=nothing", "queue=queue-0", "queue=queue-19", "key=customer-7",
		"key=nothing", "error=card", "error=nothing",
		"newer=1h", "newer=3d", "older=1h", "older=3d", "older=1h&newer=3d", "kind=kind-59&queue=queue-19",
		"kind=kind-0&error=card", "queue=queue-19&newer=1h",
		"kind=nothing&older=1h", "key=customer-7&newer=3d", "error=nothing&newer=3d", "key=customer-7&kind=kind-1",
		"queue=nothing&error=card"},
	"outbox": {"topic=topic-0", "topic=topic-39", "topic=nothing", "key=customer-7", "key=nothing", "error=card",
		"error=nothing", "newer=1h", "older=3d",
		"topic=topic-39&error=card", "topic=topic-39&newer=1h", "topic=nothing&older=1h",
		"key=customer-7&topic=topic-1"},
	"inbox": {"consumer=consumer-0", "consumer=consumer-19", "consumer=nothing", "topic=topic-39", "key=message-7000",
		"key=nothing", "error=card", "error=nothing",
		"newer=1h", "older=3d", "consumer=consumer-19&error=card", "consumer=consumer-19&newer=1h",
		"consumer=consumer-19&topic=topic-39", "consumer=consumer-0&key=message-7000"},
	"timers": {"topic=topic-0", "topic=topic-39", "topic=nothing", "key=timer-7000", "key=nothing", "error=card",
		"error=nothing", "newer=1h", "older=3d",
		"topic=topic-39&error=card", "topic=topic-39&newer=1h"},
	"jobs_schedule": {"key=schedule-0007", "newer=1h", "older=3d", "error=card"},
}

// states are those that can be listed.
var states = []string{"ready", "scheduled", "waiting", "in_progress", "expired", "done", "failed", "cancelled"}

// lists adds the lists of a table: in every state the first page and page 1,000, and each filter there.
func (d *data) lists(ctx context.Context, all []ask, table string) ([]ask, error) {
	for _, state := range states {
		after, err := d.position(ctx, table, state)
		if err != nil {
			return nil, err
		}
		path := "/t/" + table + "/" + state
		all = append(all, ask{Path: path}, ask{Path: path + "?limit=200"})
		for _, f := range filters[table] {
			all = append(all, ask{Path: path + "?" + f})
		}
		if after == "" {
			continue
		}
		all = append(all, ask{path + "?after=" + after, true})
		for _, f := range filters[table] {
			if f[:4] != "key=" { // rows with a key are not in this order
				all = append(all, ask{path + "?" + f + "&after=" + after, true})
			}
		}
	}
	return all, nil
}

// position is that of the last row before page 1,000, or of the one before the last page; empty if there is one page.
func (d *data) position(ctx context.Context, table, state string) (string, error) {
	t, err := workqueue.Open(workqueue.Spec{Schema: workqueue.DefaultSchema, Table: table}, quiet)
	if err != nil {
		return "", err
	}
	db := operate.DB{Pool: d.Pool, Schema: workqueue.DefaultSchema, Limit: time.Minute}
	o := operate.ListOptions{State: state, Limit: deep}
	first, err := db.List(ctx, t, o, func(int) {})
	if err != nil || first.Next != "" || len(first.Rows) <= 50 {
		return first.Next, err
	}
	last := first.Rows[len(first.Rows)-51].Position
	return base64.RawURLEncoding.EncodeToString([]byte(state + " " + last)), nil
}
