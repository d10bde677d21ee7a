package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/workqueue"
)

// reapBatch is how many rows one transaction changes, as in the tables' SQL functions.
const reapBatch = 1000

func newReapCommand(a *app) *cobra.Command {
	cmd := newCommand("reap [TABLE]...", "Requeue expired leases, sweep, and delete rows past their retention, until nothing is left",
		cobra.ArbitraryArgs)
	limit := cmd.Flags().Int("limit", 0, "process at most this many rows of each table for each kind of work (default: all)")
	noPurge := cmd.Flags().Bool("no-purge", false, "do not delete rows past their retention")
	asJSON := jsonFlag(cmd, reaped{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 0 || cmd.Flags().Changed("limit") && *limit == 0 {
			return usagef("--limit is %d, it must be at least 1", *limit)
		}
		return a.withDatabase(cmd.Context(), func(d *database) error {
			all, err := d.reapAll(cmd.Context(), args, cmp.Or(*limit, math.MaxInt), !*noPurge)
			switch {
			case err != nil && *asJSON && len(all) > 0:
				a.failed = reaped{Tables: all, Error: told(cmd.Context(), explain(err))}
			case err == nil && *asJSON:
				return a.printJSON(reaped{Tables: all})
			case !*asJSON && len(all) > 0:
				err = cmp.Or(err, a.printReaped(all))
			}
			return explain(err)
		})
	}
	return cmd
}

// reaped is what reap prints.
type reaped struct {
	Tables []reapedTable `json:"tables"`          // in the order of their names; after an outage, those that were begun
	Error  string        `json:"error,omitempty"` // what could not be done
}

// reapedTable is what was done to one table.
type reapedTable struct {
	Table string `json:"table"` // with its schema
	workqueue.Reaped
	Swept        int         `json:"swept"`                  // rows changed by the sweeps: deadlines of joins, keys that can continue, tombstones
	PurgedDone   int         `json:"purged_done"`            // done and cancelled rows past their retention
	PurgedFailed int         `json:"purged_failed"`          // dead letters past their retention
	Skipped      int         `json:"skipped"`                // rows in the way: they could not be processed, and were left
	Rows         []reapedRow `json:"skipped_rows,omitempty"` // the first ten of them
	FoldBusy     bool        `json:"fold_busy"`              // another session folds, so keys and joins are left to it
	More         bool        `json:"more"`                   // the limit was reached, so there may be more
	Error        string      `json:"error,omitempty"`        // what else could not be done
}

// reapedRow is a row that could not be processed.
type reapedRow struct {
	Work string `json:"work"` // reap, purge_done or purge_failed
	workqueue.Skipped
}

// maxReapedRows is how many skipped rows of a table are named.
const maxReapedRows = 10

// A reaping is the maintenance of one table.
type reaping struct {
	db     *database
	table  *workqueue.Table
	done   reapedTable
	errs   []error
	hidden bool // row-level security hides rows from the role
	works  []*reapWork
}

// A reapWork is one kind of work on a table, in transactions of bounded size.
type reapWork struct {
	what string // for errors
	left int    // how many more rows it may process
	next func(ctx context.Context, limit int) (rows int, err error)

	// each does the same and skips the rows that are in the way, beside those that are given; nil: it cannot. Once next
	// has failed, each does the rest.
	each    func(ctx context.Context, limit int, except []uuid.UUID) (rows int, _ []workqueue.Skipped, err error)
	kind    string // names the work of skipped rows
	careful bool
	skips   []uuid.UUID
}

// reapAll returns what was done, even if it also returns an error. A table that fails does not keep the others from
// being served, unless the database is unavailable. The tables take turns, one transaction of each kind of work at a
// time, so that rows which are deleted for minutes do not keep expired leases from being requeued.
func (d *database) reapAll(ctx context.Context, names []string, limit int, purge bool) (all []reapedTable, err error) {
	all = []reapedTable{}
	tables, err := d.tables(ctx, names...)
	if err != nil {
		return all, err
	}
	progress := d.app.newTally("reaped", "rows", -1)
	defer progress.end()
	reapings := make([]*reaping, len(tables))
	for i, t := range tables {
		reapings[i] = newReaping(d, t)
	}
	begun := 0
	turn := func(do func(*reaping) bool) (on bool) {
		for i, r := range reapings {
			begun = max(begun, i+1)
			if !do(r) {
				return false
			}
			progress.set(int64(rowsOf(reapings)))
		}
		return true
	}
	on := turn(func(r *reaping) bool { return r.begin(ctx, limit, purge) && r.pass(ctx) })
	for on && slices.ContainsFunc(reapings, func(r *reaping) bool { return len(r.works) > 0 }) {
		on = turn(func(r *reaping) bool { return r.pass(ctx) })
	}
	var errs []error
	for _, r := range reapings[:begun] {
		r.end(ctx)
		all = append(all, r.done)
		errs = append(errs, r.errs...)
		if r.done.Skipped > 0 {
			errs = append(errs, fmt.Errorf("%s: %s", r.table.Name(), r.done.inTheWay()))
		}
	}
	return all, errors.Join(errs...)
}

func newReaping(d *database, t *workqueue.Table) *reaping {
	r := &reaping{db: d, table: t, done: reapedTable{Table: t.Name()}}
	r.works = []*reapWork{{what: "reaping", kind: "reap", next: r.reap, each: r.reapEach, left: math.MaxInt}}
	return r
}

// rowsOf counts what was done.
func rowsOf(all []*reaping) (rows int) {
	for _, r := range all {
		rows += r.done.Requeued + r.done.Failed + r.done.Swept + r.done.PurgedDone + r.done.PurgedFailed
	}
	return rows
}

// try records an error, and tells whether to go on: not after an interruption or an outage.
func (r *reaping) try(ctx context.Context, what string, err error) (on bool) {
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s %s: %w", what, r.table.Name(), err))
	}
	return ctx.Err() == nil && !outage.Is(err)
}

// begin decides what there is to do.
func (r *reaping) begin(ctx context.Context, limit int, purge bool) (on bool) {
	hidden, err := r.db.hides(ctx, r.table)
	if !r.try(ctx, "looking at", err) {
		return false
	}
	r.hidden = hidden
	q := r.table.On(r.db.Pool)
	if hidden {
		r.try(ctx, "sweeping", errHidden)
	} else {
		r.works = append(r.works, &reapWork{what: "sweeping", next: func(ctx context.Context, limit int) (int, error) {
			n, err := q.Sweep(ctx, limit)
			r.done.Swept += n
			return n, err
		}})
	}
	if purge {
		ages, err := r.db.retentions(ctx, r.table)
		if !r.try(ctx, "looking at the retention of", err) {
			return false
		}
		const what = "deleting what is past its retention from"
		for i, w := range []*reapWork{
			{what: what, kind: "purge_done", next: r.purge(&r.done.PurgedDone, "done", "failed_retention"),
				each: r.purgeEach(&r.done.PurgedDone, workqueue.Done, ages[0])},
			{what: what, kind: "purge_failed", next: r.purge(&r.done.PurgedFailed, "failed", "retention"),
				each: r.purgeEach(&r.done.PurgedFailed, workqueue.Failed, ages[1])},
		} {
			if ages[i] != nil { // the migration does not keep them for ever
				r.works = append(r.works, w)
			}
		}
	}
	for _, w := range r.works {
		w.left = limit
	}
	return true
}

// pass does one transaction of each kind of work that is left, and then folds, because all of them may leave notes.
func (r *reaping) pass(ctx context.Context) (on bool) {
	if len(r.works) == 0 {
		return true
	}
	var left []*reapWork
	for _, w := range r.works {
		more, err := r.batch(ctx, w)
		if !r.try(ctx, w.what, err) {
			return false
		}
		if more {
			left = append(left, w)
		}
	}
	r.works = left
	if r.hidden {
		return true // the error of the sweep says so
	}
	_, busy, err := r.table.On(r.db.Pool).TryFold(ctx)
	r.done.FoldBusy = busy
	return r.try(ctx, "folding", err)
}

// batch does one transaction, or one that skips rows if another one has failed. It tells whether more is left.
func (r *reaping) batch(ctx context.Context, w *reapWork) (more bool, err error) {
	limit := min(w.left, reapBatch)
	rows, skipped := 0, []workqueue.Skipped(nil)
	if !w.careful {
		rows, err = w.next(ctx, limit)
		w.careful = err != nil && w.each != nil && ctx.Err() == nil && !outage.Is(err)
	}
	if w.careful {
		first := err
		if rows, skipped, err = w.each(ctx, limit, w.skips); err != nil && first != nil {
			err = first // which says more
		}
	}
	if err != nil {
		return false, err
	}
	r.done.skip(w.kind, skipped)
	for _, s := range skipped {
		w.skips = append(w.skips, s.ID)
	}
	w.left -= rows
	switch {
	case rows+len(skipped) < limit:
		return false, nil
	case w.left <= 0:
		r.done.More = true
		return false, nil
	case len(w.skips) >= workqueue.MaxSkipped:
		return false, fmt.Errorf("%d rows are in the way, so those behind them were not tried", len(w.skips))
	}
	return true, nil
}

// end sums up, and notes that the table was maintained.
func (r *reaping) end(ctx context.Context) {
	if err := errors.Join(r.errs...); err != nil {
		r.done.Error = told(ctx, explain(err))
	}
	if ctx.Err() == nil && !r.hidden {
		r.try(ctx, "noting the maintenance of", r.db.noteMaintained(ctx, r.table, r.done.problem()))
	}
}

// errHidden is why a table is maintained only in part, and why that is not noted.
var errHidden = errors.New("row-level security hides rows from the role, and only the rows that it sees are maintained: " +
	"run this as the owner of the tables or as a role with BYPASSRLS")

// hides asks whether the role sees a part of the rows only.
func (d *database) hides(ctx context.Context, t *workqueue.Table) (hidden bool, err error) {
	name := pgx.Identifier{t.Spec().Schema, t.Spec().Table}.Sanitize()
	err = d.Pool.QueryRow(ctx, "SELECT row_security_active($1::regclass)", name).Scan(&hidden)
	return hidden, err
}

// inTheWay tells of the rows that were skipped.
func (r reapedTable) inTheWay() string {
	return fmt.Sprintf("%d rows in the way were skipped, such as %s of %s", r.Skipped, r.Rows[0].Work, r.Rows[0].Skipped)
}

// problem is what was left undone.
func (r reapedTable) problem() string {
	switch {
	case r.Skipped == 0:
		return r.Error
	case r.Error == "":
		return r.inTheWay()
	}
	return r.Error + "; " + r.inTheWay()
}

func (r *reapedTable) skip(work string, rows []workqueue.Skipped) {
	r.Skipped += len(rows)
	for _, row := range rows[:min(len(rows), maxReapedRows-len(r.Rows))] {
		r.Rows = append(r.Rows, reapedRow{work, row})
	}
}

// noteMaintained records when the table was maintained and what was left undone, for doctor, the gauges and reapers. A
// schema that only has the application's own tables has no function to record it. A role without the privilege has done
// everything else.
func (d *database) noteMaintained(ctx context.Context, t *workqueue.Table, problem string) error {
	note := pgx.Identifier{t.Spec().Schema, "leader_note"}.Sanitize()
	_, err := d.Pool.Exec(ctx, "SELECT "+note+"($1, $2)", t.Name(), problem)
	var pg *pgconn.PgError
	switch {
	case !errors.As(err, &pg):
		return err
	case pg.Code == "42883": // undefined_function
		return nil
	case pg.Code == "42501": // insufficient_privilege
		d.app.logger().Warn("the role may not note that the table was maintained, so txwork doctor does not know",
			"table", t.Name(), "error", err)
		return nil
	}
	return err
}

// reap calls the table's own function, because it has the backoff of the migration that created the table, which this
// command does not know.
func (r *reaping) reap(ctx context.Context, limit int) (int, error) {
	var requeued, failed int
	function := pgx.Identifier{r.table.Spec().Schema, r.table.Spec().Table + "_reap_expired"}.Sanitize()
	err := r.db.Write(ctx, func(tx workqueue.Tx) error {
		row := func(scan func(dest ...any) error) error { return scan(&requeued, &failed) }
		return tx.Query(ctx, row, "SELECT requeued, failed FROM "+function+"($1)", limit)
	})
	if err != nil {
		return 0, err // nothing was committed
	}
	r.done.Requeued, r.done.Failed = r.done.Requeued+requeued, r.done.Failed+failed
	return requeued + failed, nil
}

func (r *reaping) reapEach(ctx context.Context, limit int, except []uuid.UUID) (int, []workqueue.Skipped, error) {
	n, skipped, err := r.table.On(r.db.Pool).ReapExpiredEach(ctx, limit, except)
	r.done.Requeued, r.done.Failed = r.done.Requeued+n.Requeued, r.done.Failed+n.Failed
	return n.Requeued + n.Failed, skipped, err
}

// purge deletes with the retention of the migration. The other kind has its turn, and other is the parameter that keeps
// it.
func (r *reaping) purge(count *int, kind, other string) func(context.Context, int) (int, error) {
	return func(ctx context.Context, limit int) (n int, err error) {
		function := pgx.Identifier{r.table.Spec().Schema, r.table.Spec().Table + "_purge"}.Sanitize()
		err = r.db.Write(ctx, func(tx workqueue.Tx) error {
			row := func(scan func(dest ...any) error) error { return scan(&n) }
			return tx.Query(ctx, row, fmt.Sprintf("SELECT %s FROM %s($1, %s => NULL)", kind, function, other), limit)
		})
		if err != nil {
			return 0, err // nothing was committed
		}
		*count += n
		return n, nil
	}
}

func (r *reaping) purgeEach(count *int, status workqueue.Status, age *time.Duration) func(context.Context, int,
	[]uuid.UUID) (int, []workqueue.Skipped, error) {
	return func(ctx context.Context, limit int, except []uuid.UUID) (int, []workqueue.Skipped, error) {
		n, skipped, err := r.table.On(r.db.Pool).PurgeEach(ctx, status, *age, limit, except)
		*count += n
		return n, skipped, err
	}
}

// retentions returns the retention of done and of failed rows in the migration: the defaults of the function purge. nil
// is for ever.
func (d *database) retentions(ctx context.Context, t *workqueue.Table) (ages [2]*time.Duration, err error) {
	const age = `(extract(epoch FROM substring(pg_get_function_arg_default(p.oid, %d) FROM '''([^'']+)''')::interval) ` +
		`* 1000000)::bigint`
	text := fmt.Sprintf("SELECT "+age+", "+age+` FROM pg_proc AS p
		JOIN pg_namespace AS n ON n.oid = p.pronamespace
		WHERE n.nspname = $1::text::name AND p.proname = $2::text::name
		ORDER BY p.oid
		LIMIT 1`, 2, 3)
	var micros [2]*int64
	err = d.Pool.QueryRow(ctx, text, t.Spec().Schema, t.Spec().Table+"_purge").Scan(&micros[0], &micros[1])
	for i, m := range micros {
		if m != nil {
			age := time.Duration(*m) * time.Microsecond
			ages[i] = &age
		}
	}
	return ages, err
}

func (a *app) printReaped(all []reapedTable) error {
	g := newGrid(a.stdout, "TABLE", "REQUEUED", "FAILED", "SWEPT", "PURGED", "")
	for _, r := range all {
		var notes []string
		if r.More {
			notes = append(notes, "limit reached, more may be left")
		}
		if r.Skipped > 0 {
			notes = append(notes, fmt.Sprintf("%d rows skipped", r.Skipped))
		}
		if r.Error != "" {
			notes = append(notes, "failed, see below")
		}
		if r.FoldBusy {
			notes = append(notes, "another session folds, keys and joins are left to it")
		}
		g.add(r.Table, fmt.Sprint(r.Requeued), fmt.Sprint(r.Failed), fmt.Sprint(r.Swept),
			fmt.Sprint(r.PurgedDone+r.PurgedFailed), strings.Join(notes, "; "))
	}
	return g.flush()
}
