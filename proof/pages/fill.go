package pages

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

//go:embed fill.sql
var fillFunctions string

//go:embed fill_ended.sql
var fillEnded string

//go:embed fill_rest.sql
var fillRest string

// Shares of what is filled in: all of it grows with the number of rows.
const (
	endedShare   = 0.972   // rows that have ended
	keyShare     = 0.005   // ordered keys with live rows in each of two tables
	joinShare    = 0.002   // joins
	schedules    = 2500    // in each of two tables, however many rows there are
	tasks        = 500     // of the largest workflow
	rowsATime    = 250_000 // rows of a table in a transaction
	domainTables = 4
)

// fill fills an empty database.
func fill(ctx context.Context, pool *pgxpool.Pool, rows int, progress io.Writer) error {
	m, err := migrations.New(pool, migrations.Options{Logger: quiet.Logger})
	if err != nil {
		return err
	}
	if _, err := m.Up(ctx); err != nil {
		return err
	}
	indexes, err := dropIndexes(ctx, pool)
	if err != nil {
		return err
	}
	ended := int(float64(rows)*endedShare) / domainTables
	write := func(text string, first, last int) error {
		text = strings.NewReplacer("now()", "timestamptz '"+began.Format(time.RFC3339Nano)+"'",
			"$millisecond", fmt.Sprint(began.UnixMilli()), "$first", fmt.Sprint(first), "$last", fmt.Sprint(last),
			"$rows", fmt.Sprint(ended), "$keys", fmt.Sprint(int(float64(rows)*keyShare)),
			"$joins", fmt.Sprint(int(float64(rows)*joinShare))).Replace(text)
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica; "+text) // without triggers
			return err
		})
	}
	if err := write(fillFunctions, 0, 0); err != nil {
		return err
	}
	for first := 1; first <= ended; first += rowsATime {
		last := min(first+rowsATime-1, ended)
		if err := write(fillEnded, first, last); err != nil {
			return err
		}
		fmt.Fprintf(progress, "pages: %d rows\n", domainTables*last)
	}
	if err := write(fillRest, 0, 0); err != nil {
		return err
	}
	for _, definition := range indexes {
		if _, err := pool.Exec(ctx, definition); err != nil {
			return err
		}
	}
	fmt.Fprintln(progress, "pages: the indexes are made")
	if err := workqueue.InTx(ctx, pool, func(tx workqueue.Tx) error { return fillByAPI(ctx, tx) }); err != nil {
		return err
	}
	for _, text := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := pool.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// began is when the rows are filled in: all times are relative to it.
var began = time.Now()

// dropIndexes drops the indexes that take long to write to, and returns their definitions.
func dropIndexes(ctx context.Context, pool *pgxpool.Pool) (definitions []string, err error) {
	found, err := pool.Query(ctx, `SELECT pg_get_indexdef(i.indexrelid), i.indexrelid::regclass::text
		FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
		WHERE NOT i.indisprimary AND c.oid IN ('txwork.jobs'::regclass, 'txwork.outbox'::regclass,
			'txwork.inbox'::regclass, 'txwork.timers'::regclass)`)
	if err != nil {
		return nil, err
	}
	var definition, name string
	var names []string
	_, err = pgx.ForEachRow(found, []any{&definition, &name}, func() error {
		definitions, names = append(definitions, definition), append(names, name)
		return nil
	})
	if err == nil {
		_, err = pool.Exec(ctx, "DROP INDEX "+strings.Join(names, ", "))
	}
	return definitions, err
}

type charge struct {
	Order int `json:"order"`
}

func (charge) Kind() string { return "kind-0" }

// fillByAPI puts schedules, and starts a large workflow.
func fillByAPI(ctx context.Context, tx workqueue.Tx) error {
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[charge]) error { return nil },
		jobs.KindOptions[charge]{Queue: "queue-0"})
	client, err := jobs.Open(jobs.Options{Registry: kinds, Telemetry: quiet})
	if err != nil {
		return err
	}
	clock, err := timers.Open(timers.Options{Telemetry: quiet})
	if err != nil {
		return err
	}
	expressions := []string{"*/15 * * * *", "0 6 1 * *", "30 9 * * 1-5", "@hourly", "0 0 * * *"}
	zones := []string{"UTC", "Europe/Zagreb", "America/New_York"}
	for i := range schedules {
		name, expr, zone := fmt.Sprintf("schedule-%04d", i), expressions[i%len(expressions)], zones[i%len(zones)]
		err := client.Schedules().Put(ctx, tx, jobs.Schedule{Name: name, Expr: expr, Zone: zone, Args: charge{i}})
		if err != nil {
			return err
		}
		if err := clock.Schedules().Put(ctx, tx, timers.Schedule{Name: name, Expr: expr, Zone: zone,
			Topic: fmt.Sprintf("topic-%d", i%40)}); err != nil {
			return err
		}
	}
	w := jobs.NewWorkflow("largest")
	var layer []*jobs.Task
	for i := range tasks {
		if i%50 == 0 { // each layer is after the one before
			layer = append(layer[:0:0], w.Task(fmt.Sprintf("gather %d", i), jobs.Insert{Args: charge{i}},
				jobs.After(layer...)))
			continue
		}
		after := layer[:1]
		layer = append(layer, w.Task(fmt.Sprintf("task %d", i), jobs.Insert{Args: charge{i}}, jobs.After(after...)))
	}
	_, err = client.StartWorkflow(ctx, tx, w)
	return err
}
