package conformance

import (
	"context"
	"encoding/json"
	"fmt"
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

func (o functionOps) insert(ctx context.Context, rows ...workqueue.NewRow) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for _, row := range rows {
		query, args, ok := o.writing(row)
		if !ok {
			var err error
			if query, args, err = o.insertion(row); err != nil {
				return nil, err
			}
		}
		var id uuid.UUID
		if err := o.tx.QueryRow(ctx, query, described(args)...).Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// insertion names only the columns that the row sets, so that the table's defaults apply to the others.
func (o functionOps) insertion(row workqueue.NewRow) (query string, args []any, err error) {
	var columns, params []string
	add := func(column, typ string, value any) {
		args = append(args, value)
		columns = append(columns, column)
		params = append(params, fmt.Sprintf("$%d::%s", len(args), typ))
	}
	if row.ID != uuid.Nil {
		add("id", "uuid", row.ID)
	}
	if !row.DueAt.IsZero() {
		add("due_at", "timestamptz", row.DueAt)
	}
	if row.MaxAttempts > 0 {
		add("max_attempts", "integer", row.MaxAttempts)
	}
	if row.Waiting {
		add("waiting", "boolean", true)
	}
	for column, value := range map[string]any{"headers": row.Headers, "retry": storedRetry(row.Retry)} {
		encoded, err := json.Marshal(value)
		if err != nil {
			return "", nil, err
		}
		if text := string(encoded); text != "null" {
			add(column, "jsonb", text)
		}
	}
	for i, c := range o.spec.Columns {
		add(`"`+c.Name+`"`, c.Type, row.Values[i])
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) RETURNING id",
		o.spec.Name(), strings.Join(columns, ", "), strings.Join(params, ", ")), args, nil
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
	args := o.fetchArgs(owner, lease, limit, lanes)
	rows, err := o.tx.Query(ctx, "SELECT id FROM "+o.call("fetch", len(args))+" WHERE entry = 'row' ORDER BY place",
		described(args)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// fetchArgs are the arguments of a fetch from one lane. A lane without rules and topics is an array.
func (o functionOps) fetchArgs(owner, lease, limit any, lanes []any) []any {
	args := []any{owner, lease, limit}
	for i, value := range lanes {
		if name := o.spec.Lanes[i]; name != o.spec.Admission && name != o.spec.Topics.Lane {
			value = []any{value}
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
	return o.settle(ctx, "retry", owner, ids, delay, cause)
}

func (o functionOps) retry(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error) {
	return o.settle(ctx, "retry", owner, ids, nil, cause)
}

func (o functionOps) fail(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error) {
	return o.settle(ctx, "fail", owner, ids, cause)
}

func (o functionOps) snooze(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration) ([]uuid.UUID,
	error) {
	return o.settle(ctx, "snooze", owner, ids, delay)
}

func (o functionOps) release(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	return o.settle(ctx, "release", owner, ids)
}

func (o functionOps) extend(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, lease time.Duration) ([]uuid.UUID,
	error) {
	return o.settle(ctx, "extend", owner, ids, lease)
}

// settle reads what a function says of each row as the Go API does: the rows that it changed, and those that the claim
// does not hold as an error.
func (o functionOps) settle(ctx context.Context, function string, owner uuid.UUID, ids []uuid.UUID,
	args ...any) ([]uuid.UUID, error) {
	args = append([]any{owner, append([]uuid.UUID{}, ids...)}, args...)
	return o.told(ctx, "SELECT place, id, result FROM "+o.call(function, len(args)), args...)
}

func (o functionOps) told(ctx context.Context, query string, args ...any) (changed []uuid.UUID, err error) {
	rows, err := o.tx.Query(ctx, query, described(args)...)
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

func (o functionOps) redrive(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	return o.verb(ctx, "redrive", ids)
}

func (o functionOps) cancel(ctx context.Context, ids []uuid.UUID, reason string) ([]uuid.UUID, error) {
	return o.verb(ctx, "cancel", ids, reason)
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

func seconds(d time.Duration) int { return int(d / time.Second) }
