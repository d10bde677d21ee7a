// Package pgxconn hands over what is no transaction: it must not compile.
package pgxconn

import (
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

func use(notATransaction *pgx.Conn) workqueue.Tx { return workqueue.Pgx(notATransaction) }
