package txworktest

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// Panic is the [Fault] of a handler that panics.
func Panic(value any) Fault {
	return func(context.Context, uuid.UUID) error { panic(value) }
}

// Error is the [Fault] of a handler that returns this error: a failed attempt, or an outcome such as
// workqueue.Permanent.
func Error(err error) Fault {
	return func(context.Context, uuid.UUID) error { return err }
}

// LoseLease is the [Fault] of a process that stalls past its lease: the row's lease expires, and the row is requeued as
// by the reaper. The handler does not notice, unless it settles in a transaction of its own, which is refused. Its
// result is not stored, and it runs again. A row that its handler has settled already is not affected.
//
// The row must be visible to q: if the test works in a transaction, pass the transaction.
func LoseLease(q Querier, d Domain) Fault {
	spec := d.Table().Spec()
	return func(ctx context.Context, row uuid.UUID) error {
		err := exec(ctx, q, fmt.Sprintf("UPDATE %s SET locked_until = now() - interval '1 second' WHERE id = "+
			"$1::text::uuid AND status = 1", quoted(spec)), row.String())
		if err != nil {
			return fmt.Errorf("txworktest: ending a lease: %w", err)
		}
		_, err = tryQuery(ctx, q, fmt.Sprintf(`SELECT requeued::text FROM %q."%s_reap_expired"(1000)`, spec.Schema,
			spec.Table))
		if err != nil {
			return fmt.Errorf("txworktest: reaping: %w", err)
		}
		return nil
	}
}

// Kill is the [Fault] of a database that becomes unavailable: every connection of the watched pools is terminated, see
// [Faults.Watch].
func (f *Faults) Kill(ctx context.Context, _ uuid.UUID) error {
	return f.terminate(ctx, "true")
}
