// Package sqlxdb hands over what is no transaction: it must not compile.
package sqlxdb

import (
	"github.com/jmoiron/sqlx"

	"github.com/txwork/txwork/workqueue"
)

func use(notATransaction *sqlx.DB) workqueue.Tx { return workqueue.SQL(notATransaction) }
