// Package pgxpoolconn hands over what is no transaction: it must not compile.
package pgxpoolconn

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

func use(notATransaction *pgxpool.Conn) workqueue.Tx { return workqueue.Pgx(notATransaction) }
