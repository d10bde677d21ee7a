// Package sqlxconn hands over what is no transaction: it must not compile.
package sqlxconn

import (
	"github.com/jmoiron/sqlx"

	"github.com/txwork/txwork/workqueue"
)

func use(notATransaction *sqlx.Conn) workqueue.Tx { return workqueue.SQL(notATransaction) }
