package migrations

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// failed adds to an error what was tried and, if one is known, the remedy.
func (m *Migrator) failed(action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("txwork: %s in schema %s: %w", action, m.schema, explain(err))
}

func explain(err error) error {
	var pg *pgconn.PgError
	answered := errors.As(err, &pg)
	if connect := new(pgconn.ConnectError); errors.As(err, &connect) {
		if answered {
			return fmt.Errorf("the server refuses the connection: %w", err)
		}
		return fmt.Errorf("the database cannot be reached: %w", err)
	}
	if !answered {
		return err
	}
	switch pg.Code {
	case "25006": // read_only_sql_transaction
		return fmt.Errorf("%w: connect to the primary: %w", workqueue.ErrReadOnly, err)
	case "42501": // insufficient_privilege
		return fmt.Errorf("the role lacks a right: %w", err)
	case "42P07", "42723", "42710": // duplicate table, function, object
		return fmt.Errorf("the schema holds something of that name which no migration recorded: use another schema, "+
			"or remove it: %w", err)
	}
	return err
}
