// Package pgxpool hands over what is no transaction: it must not compile.
package pgxpool

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

func use(notATransaction *pgxpool.Pool) workqueue.Tx { return workqueue.Pgx(notATransaction) }
