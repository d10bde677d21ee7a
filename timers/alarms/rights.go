package alarms

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// A lackingError lists the privileges and objects that the connection lacks, and says how it gets the privileges.
type lackingError struct {
	needs []string
	grant string
}

func (e *lackingError) Error() string {
	return fmt.Sprintf("txwork: alarms cannot work on this connection: it lacks %s; %s", strings.Join(e.needs, ", "),
		e.grant)
}

// check returns an error unless the database answers, has the tables, and lets the session's role work on them.
func (s *Store) check(ctx context.Context, toDeliver bool) error {
	var lacking lackingError
	kind, schema := "producer", s.alarms.timers.Table().Spec().Schema
	if toDeliver {
		kind = "worker"
	}
	err := s.do(ctx, func(tx workqueue.Tx) error {
		lacking = lackingError{}
		err := tx.Query(ctx, func(scan func(...any) error) error {
			var needs string
			err := scan(&needs)
			lacking.needs = append(lacking.needs, needs)
			return err
		}, s.alarms.statements.lacking, toDeliver)
		if err != nil || len(lacking.needs) == 0 {
			return err
		}
		return tx.Query(ctx, func(scan func(...any) error) error {
			var g postgres.Grantee
			err := scan(g.Fields()...)
			if lacking.grant = g.Grant(kind, schema); slices.Contains(lacking.needs, "a primary server") {
				lacking.grant = "connect to the primary"
			}
			return err
		}, postgres.SelectGrantee, kind, schema)
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
