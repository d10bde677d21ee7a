// Package sqldb hands over what is no transaction: it must not compile.
package sqldb

import (
	"database/sql"

	"github.com/txwork/txwork/workqueue"
)

func use(notATransaction *sql.DB) workqueue.Tx { return workqueue.SQL(notATransaction) }
