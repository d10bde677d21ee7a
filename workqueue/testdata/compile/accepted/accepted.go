// Package accepted hands over every transaction that there is.
package accepted

import (
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"

	"github.com/txwork/txwork/workqueue"
)

func use(a pgx.Tx, b *pgxpool.Tx, c *sql.Tx, d *sqlx.Tx) []workqueue.Tx {
	return []workqueue.Tx{workqueue.Pgx(a), workqueue.Pgx(b), workqueue.SQL(c), workqueue.SQL(d)}
}
