package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// functionOps are the table's SQL functions, called as any client in any language calls them. Rows that the function
// for new rows cannot write, such as rows with an id of the caller's, are enqueued by a plain INSERT.
type functionOps struct {
	tx   pgx.Tx
	spec workqueue.Spec
}

var _ ops = functionOps{}

func openFunctions(_ *testing.T, db *pgtest.DB, table *workqueue.Table) begin {
	return func(ctx context.Context) (*transaction, error) {
		tx, err := db.Pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		return pgxTransaction(functionOps{tx, table.Spec()}, tx), nil
	}
}

// described makes the server tell the types of the arguments, whatever the connection's mode. Inside a transaction this
// works through every pooler.
func described(args []any) []any { return append([]any{pgx.QueryExecModeDescribeExec}, args...) }

// call renders the call of a function with n arguments: schema.table_function($1, $2).
func (o functionOps) call(function string, n int) string {
	params := make([]string, n)
	for i := range params {
		params[i] = fmt.Sprintf("$%d", i+1)
	}
	return fmt.Sprintf("%s_%s(%s)", o.spec.Name(), function, strings.Join(params, ", "))
}

// storedRetry returns a row's own backoff in the form that the table's functions read, or nil for the zero value.
func storedRetry(r workqueue.Retry) map[string]any {
	if r == (workqueue.Retry{}) {
		return nil
	}
	names := map[workqueue.Growth]string{workqueue.Constant: "constant", workqueue.Linear: "linear",
		workqueue.Quadratic: "quadratic", workqueue.Exponential: "exponential"}
	return map[string]any{"growth": names[r.Growth], "base_us": r.Base.Microseconds(), "cap_us": r.Cap.Microseconds(),
		"jitter": r.Jitter}
}

func (o functionOps) claim(ctx context.Context, owner uuid.UUID, lease time.Duration, limit int,
	lanes ...any) ([]uuid.UUID, error) {
	rows, err := o.fetch(ctx, owner, lease, limit, lanes...)
	return idsOfRows(rows), err
}

func (o functionOps) fetch(ctx context.Context, owner uuid.UUID, lease time.Duration, limit int,
	lanes ...any) ([]workqueue.Row, error) {
	f, err := o.fetchAt(ctx, nil, owner, lease, limit, lanes...)
	return f.rows, err
}

// A fetched is what a fetch returns.
type fetched struct {
	rows    []workqueue.Row
	againIn float64
	more    bool
	cursor  *string
}

// fetchAt fetches behind a cursor, and checks that places count from 1 and that there is one end, which is last.
func (o functionOps) fetchAt(ctx context.Context, cursor *string, owner uuid.UUID, lease time.Duration, limit int,
	lanes ...any) (f fetched, err error) {
	args := append(o.fetchArgs(given(owner), floored(lease), limit, lanes), cursor)
	columns := ""
	for _, c := range o.spec.Columns {
		if !c.Internal {
			columns += ", " + pgx.Identifier{c.Name}.Sanitize()
		}
	}
	rows, err := o.tx.Query(ctx, "SELECT entry, place, id, due_at, created_at, attempts, max_attempts, headers::text, "+
		"again_in, more, cursor"+columns+" FROM "+o.call("fetch", len(args)), described(args)...)
	if err != nil {
		return f, err
	}
	ended := false
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return f, err
		}
		if ended {
			return f, fmt.Errorf("a %v is behind the end", values[0])
		}
		if ended = values[0] == "end"; ended {
			f.againIn, f.more = values[8].(float64), values[9].(bool)
			next := values[10].(string)
			f.cursor = &next
			continue
		}
		row := workqueue.Row{ID: values[2].([16]byte), Token: owner, DueAt: values[3].(time.Time),
			CreatedAt: values[4].(time.Time), Attempt: int(values[5].(int32)), MaxAttempts: int(values[6].(int32)),
			Values: values[11:]}
		if headers, ok := values[7].(string); ok {
			if err := json.Unmarshal([]byte(headers), &row.Headers); err != nil {
				return f, err
			}
		}
		f.rows = append(f.rows, row)
		if int(values[1].(int32)) != len(f.rows) {
			return f, fmt.Errorf("row %d has the place %v", len(f.rows), values[1])
		}
	}
	if err := rows.Err(); err != nil {
		return f, err
	}
	if !ended {
		return f, errors.New("the fetch has no end")
	}
	return f, nil
}

// given is NULL for no token.
func given(token uuid.UUID) any {
	if token == uuid.Nil {
		return nil
	}
	return token
}

// floored is a length of time in the microseconds that PostgreSQL knows. A little less than nothing stays so.
func floored(d time.Duration) time.Duration {
	if whole := d.Truncate(time.Microsecond); whole <= d {
		return whole
	}
	return d.Truncate(time.Microsecond) - time.Microsecond
}

// sendable is a text as a program has to send it: PostgreSQL takes no NUL, and only valid UTF-8.
func sendable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
}

// apart does fn in a savepoint.
func (o functionOps) apart(ctx context.Context, fn func(ops) error) error {
	return pgx.BeginFunc(ctx, o.tx, func(tx pgx.Tx) error { return fn(functionOps{tx, o.spec}) })
}

// fetchArgs are the arguments of a fetch from one lane. A lane without rules and topics is an array.
func (o functionOps) fetchArgs(owner, lease, limit any, lanes []any) []any {
	args := []any{owner, lease, limit}
	for i, value := range lanes {
		if i < len(o.spec.Lanes) { // a value too many is the next argument
			if name := o.spec.Lanes[i]; name != o.spec.Admission && name != o.spec.Topics.Lane {
				value = []any{value}
			}
		}
		args = append(args, value)
	}
	return args
}

func (o functionOps) ack(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	return o.settle(ctx, "ack", owner, ids)
}

func (o functionOps) abandon(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration,
	cause string) ([]uuid.UUID, error) {
	return o.settle(ctx, "retry", owner, ids, floored(delay), sendable(cause))
}

func (o functionOps) retry(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error) {
	return o.settle(ctx, "retry", owner, ids, nil, sendable(cause))
}

func (o functionOps) fail(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error) {
	return o.settle(ctx, "fail", owner, ids, sendable(cause))
}

func (o functionOps) snooze(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration) ([]uuid.UUID,
	error) {
	return o.settle(ctx, "snooze", owner, ids, floored(delay))
}

func (o functionOps) release(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	return o.settle(ctx, "release", owner, ids)
}

// leave is an outcome of settle, which has no short form and takes each id once.
func (o functionOps) leave(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration,
	cause string) ([]uuid.UUID, error) {
	outcomes := []outcome{}
	for i, id := range ids {
		if len(ids) > workqueue.MaxBatch || !slices.Contains(ids[:i], id) {
			outcomes = append(outcomes, outcome{"id": id, "token": owner, "outcome": "leave",
				"delay": floored(delay).Seconds(), "error": sendable(cause)})
		}
	}
	return o.settleEach(ctx, outcomes)
}

// unavailable is an outcome of settle, too.
func (o functionOps) unavailable(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID,
	error) {
	outcomes := []outcome{}
	for _, id := range ids {
		outcomes = append(outcomes, outcome{"id": id, "token": owner, "outcome": "unavailable",
			"error": sendable(cause)})
	}
	return o.settleEach(ctx, outcomes)
}

// settleEach settles rows with an outcome for each.
func (o functionOps) settleEach(ctx context.Context, outcomes []outcome) ([]uuid.UUID, error) {
	encoded, err := json.Marshal(outcomes)
	if err != nil {
		return nil, err
	}
	return o.told(ctx, "settle", string(encoded))
}

func (o functionOps) extend(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, lease time.Duration) ([]uuid.UUID,
	error) {
	return o.settle(ctx, "extend", owner, ids, floored(lease))
}

// settle reads what a function says of each row as the Go API does: the rows that it changed, and those that the claim
// does not hold as an error.
func (o functionOps) settle(ctx context.Context, function string, owner uuid.UUID, ids []uuid.UUID,
	args ...any) ([]uuid.UUID, error) {
	return o.told(ctx, function, append([]any{owner, append([]uuid.UUID{}, ids...)}, args...)...)
}

func (o functionOps) told(ctx context.Context, function string, args ...any) (changed []uuid.UUID, err error) {
	rows, err := o.tx.Query(ctx, "SELECT place, id, result FROM "+o.call(function, len(args)), described(args)...)
	if err != nil {
		return nil, err
	}
	refused := &workqueue.SettleError{Table: o.spec.Name()}
	words := map[uuid.UUID]string{}
	var place, last int
	var id uuid.UUID
	var result string
	_, err = pgx.ForEachRow(rows, []any{&place, &id, &result}, func() error {
		if last++; place != last {
			return fmt.Errorf("row %d has the place %d", last, place)
		}
		if before, ok := words[id]; ok { // an id that was named twice
			if before != result {
				return fmt.Errorf("row %v is %s and %s", id, before, result)
			}
			return nil
		}
		words[id] = result
		switch result {
		case "lost":
			refused.Lost = append(refused.Lost, id)
		case "gone":
			refused.Gone = append(refused.Gone, id)
		case "done", "ready", "failed", "cancelled", "extended":
			changed = append(changed, id)
		case "repeated", "busy":
		default:
			return fmt.Errorf("row %v is %q", id, result)
		}
		return nil
	})
	if err == nil && len(refused.Lost)+len(refused.Gone) > 0 {
		err = refused
	}
	return changed, err
}

func (o functionOps) reap(ctx context.Context, limit int) (r workqueue.Reaped, err error) {
	err = o.tx.QueryRow(ctx, "SELECT requeued, failed FROM "+o.call("reap_expired", 1),
		described([]any{limit})...).Scan(&r.Requeued, &r.Failed)
	return r, err
}

func (o functionOps) sweep(ctx context.Context, limit int) (total int, err error) {
	for _, suffix := range o.spec.Sweeps {
		var n int
		if err := o.tx.QueryRow(ctx, "SELECT "+o.call(suffix, 1), described([]any{limit})...).Scan(&n); err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// purge names the ages of both kinds of rows: with NULL, rows of a kind are kept.
func (o functionOps) purge(ctx context.Context, limit int, done, failed any) (n int, err error) {
	err = o.tx.QueryRow(ctx, "SELECT done + failed FROM "+o.call("purge", 3),
		described([]any{limit, done, failed})...).Scan(&n)
	return n, err
}

func (o functionOps) purgeDone(ctx context.Context, age time.Duration, limit int) (int, error) {
	return o.purge(ctx, limit, floored(age), nil)
}

func (o functionOps) purgeFailed(ctx context.Context, age time.Duration, limit int) (int, error) {
	return o.purge(ctx, limit, nil, floored(age))
}

func (o functionOps) redrive(ctx context.Context, ids []uuid.UUID, actor string) ([]uuid.UUID, error) {
	return o.verb(ctx, "redrive", ids, sendable(actor))
}

// wake asks with a fetch that it undoes. A fetch says when rows are due; leases are for those who reap.
func (o functionOps) wake(ctx context.Context, lanes ...any) (in *time.Duration, err error) {
	undone := errors.New("undone")
	err = o.apart(ctx, func(o ops) error {
		f, err := o.(functionOps).fetchAt(ctx, nil, workqueue.NewOwnerToken(), lease, 1, lanes...)
		switch wait := time.Duration(f.againIn * float64(time.Second)); {
		case err != nil:
			return err
		case len(f.rows) > 0:
			in = new(time.Duration)
		case wait < longestWait:
			in = &wait
		}
		return undone
	})
	if errors.Is(err, undone) {
		err = nil
	}
	return in, err
}

func (o functionOps) cancel(ctx context.Context, ids []uuid.UUID, reason string) ([]uuid.UUID, error) {
	return o.verb(ctx, "cancel", ids, sendable(reason))
}

// verb calls a function of operators, and returns the ids that it changed.
func (o functionOps) verb(ctx context.Context, function string, ids []uuid.UUID, more ...any) ([]uuid.UUID, error) {
	args := append([]any{append([]uuid.UUID{}, ids...)}, more...)
	rows, err := o.tx.Query(ctx, "SELECT DISTINCT v.id FROM "+o.call(function, len(args))+" AS v WHERE v.changed",
		described(args)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

func (o functionOps) stats(ctx context.Context) (s workqueue.Stats, err error) {
	var oldest float64
	row := o.tx.QueryRow(ctx, "SELECT ready, scheduled, in_progress, expired, waiting, failed, cancelled, "+
		"oldest_ready_seconds, partial FROM "+o.call("stats", 0), described(nil)...)
	err = row.Scan(&s.Ready, &s.Scheduled, &s.InProgress, &s.Expired, &s.Waiting, &s.Failed, &s.Cancelled, &oldest,
		&s.Partial)
	s.OldestReady = time.Duration(oldest * float64(time.Second))
	return s, err
}

func seconds(d time.Duration) int { return int(d / time.Second) }
