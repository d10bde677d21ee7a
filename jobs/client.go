package jobs

import (
	"cmp"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/join"
)

// A Client enqueues, reads and changes jobs. It holds no connection and is safe for concurrent use. Open it once and
// keep it.
type Client struct {
	table      *workqueue.Table
	joins      *join.Joins
	registry   *Registry
	codec      codec.Codec
	statements statements
	options    Options
	schedules  *Schedules
}

// Open validates the options. It does not access the database.
func Open(o Options) (*Client, error) {
	spec := o.spec()
	if err := input.LimitPayload(spec, "args", "MaxArgs", o.MaxArgs); err != nil {
		return nil, err
	}
	table, err := workqueue.Open(spec, o.Telemetry)
	if err != nil {
		return nil, err
	}
	joins, err := join.Open(table)
	if err != nil {
		return nil, err
	}
	c := &Client{
		table:      table,
		joins:      joins,
		registry:   cmp.Or(o.Registry, NewRegistry()),
		codec:      o.Codec,
		statements: renderStatements(newView(table.Spec())),
		options:    o,
	}
	if c.codec == nil {
		c.codec = DefaultCodec{}
	}
	if c.schedules, err = openSchedules(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Table is the jobs' table, for low-level operations and statistics.
func (c *Client) Table() *workqueue.Table { return c.table }

// Tables returns all tables of the jobs, including that of the schedules, for the reaper.
func (c *Client) Tables() []*workqueue.Table { return []*workqueue.Table{c.table, c.schedules.Table()} }

// statements are the SQL statements of this package, in addition to those of package workqueue.
type statements struct {
	replace, pauseQueue, limitQueue, queues              string
	progress, output, steps, putStep, get, history, live string
	tasks, outputs, existing                             string
}

func renderStatements(v view) statements {
	render := func(file string) string { return sqltext.Statement(statementTemplates, file, v) }
	return statements{
		replace:    render("replace"),
		pauseQueue: render("pause_queue"),
		limitQueue: render("limit_queue"),
		queues:     render("queues"),
		progress:   render("progress"),
		output:     render("output"),
		steps:      render("steps"),
		putStep:    render("put_step"),
		get:        render("get"),
		history:    render("history"),
		live:       render("live"),
		existing:   render("existing"),
		tasks:      render("workflow_tasks"),
		outputs:    render("workflow_outputs"),
	}
}
