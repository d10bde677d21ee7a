package alarms

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/txwork/txwork/workqueue"
)

// A lackingError lists the privileges and objects that the connection lacks.
type lackingError struct{ needs []string }

func (e *lackingError) Error() string {
	return fmt.Sprintf("txwork: alarms cannot work on this connection: it lacks %s; connect as a role that has it, "+
		"see `txwork roles`",
		strings.Join(e.needs, ", "))
}

// check returns an error unless the database answers, has the tables, and lets the session's role work on them.
func (s *Store) check(ctx context.Context, toDeliver bool) error {
	var lacking lackingError
	err := s.do(ctx, func(tx workqueue.Tx) error {
		return tx.Query(ctx, func(scan func(...any) error) error {
			var needs string
			err := scan(&needs)
			lacking.needs = append(lacking.needs, needs)
			return err
		}, s.alarms.statements.lacking, toDeliver)
	})
	if err == nil && len(lacking.needs) > 0 {
		return &lacking
	}
	return err
}

// Check returns an error unless the database answers, has the tables, and lets the pool's role claim, deliver and
// settle alarms. It changes nothing. Call it before Run, and as a health check.
func (d *Dispatcher) Check(ctx context.Context) error { return d.store.check(ctx, true) }

// mayDeliver is Check for Run. It returns only a lackingError, because Run waits for a database that is unavailable.
func (d *Dispatcher) mayDeliver(ctx context.Context) error {
	err := d.Check(ctx)
	if errors.As(err, new(*lackingError)) {
		return err
	}
	return nil
}
