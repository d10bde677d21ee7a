package demo

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"

	"github.com/txwork/txwork/outbox"
)

// A bank is the application whose transfers the demo makes.
type bank struct {
	pool   *pgxpool.Pool
	sql    *sql.DB
	sqlx   *sqlx.DB
	outbox *outbox.Outbox
	post   string // statement texts
	record string
}

// openBank creates the application's tables and accounts.
func openBank(ctx context.Context, d *database, p plan) (*bank, error) {
	if _, err := d.pool.Exec(ctx, statement(d.schema, "tables")); err != nil {
		return nil, err
	}
	_, err := d.pool.Exec(ctx, fmt.Sprintf("INSERT INTO %s.accounts SELECT id, $2, $2 FROM unnest($1::text[]) AS id",
		d.schema),
		p.accounts, p.opening)
	if err != nil {
		return nil, err
	}
	o, err := outbox.Open(outbox.Options{Schema: d.schema})
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDBFromPool(d.pool)
	return &bank{
		pool: d.pool, sql: db, sqlx: sqlx.NewDb(db, "pgx"), outbox: o,
		post: fmt.Sprintf("UPDATE %s.accounts SET balance = balance + $2 WHERE id = $1", d.schema),
		record: fmt.Sprintf("INSERT INTO %s.transfers (id, debit, credit, amount, message) VALUES ($1, $2, $3, $4, $5)",
			d.schema),
	}, nil
}

// close returns the connections to the pool.
func (b *bank) close() error { return b.sql.Close() }
