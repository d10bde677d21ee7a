// Package sqlconn hands over what is no transaction: it must not compile.
package sqlconn

import (
	"database/sql"

	"github.com/txwork/txwork/workqueue"
)

func use(notATransaction *sql.Conn) workqueue.Tx { return workqueue.SQL(notATransaction) }
