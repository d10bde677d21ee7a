package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// A loot is what an attacker knows about another tenant: a claim, whose ids and owner token have leaked.
type loot struct {
	table *workqueue.Table
	token uuid.UUID
	ids   []uuid.UUID
}

// attack tries everything that the policy has to prevent, first with all the rights of another tenant, and then without
// a tenant. It returns the attempts that succeeded.
func attack(ctx context.Context, logins *logins, table *workqueue.Table) (through []string, err error) {
	victim := table.On(logins.as("worker", globex))
	l := loot{table: table, token: uuid.New()}
	rows, err := victim.Claim(ctx, l.token, time.Minute, 1, globex)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		l.ids = append(l.ids, row.ID)
	}
	for _, tenant := range []string{acme, ""} {
		for what, attempt := range attempts {
			if attempt(ctx, l, logins.as("producer", tenant), logins.as("worker", tenant)) {
				through = append(through, what+" by "+tenant)
			}
		}
	}
	_, err = victim.Release(ctx, l.token, l.ids) // fails if an attack has settled the claim
	return through, err
}

// attempts are the attacks. Each returns whether it succeeded.
var attempts = map[string]func(ctx context.Context, l loot, producer, worker *pgxpool.Pool) bool{
	"a read": func(ctx context.Context, _ loot, _, worker *pgxpool.Pool) bool {
		var n int
		err := worker.QueryRow(ctx, "SELECT count(*) FROM example_tenants.documents WHERE tenant = 'globex'").Scan(&n)
		return err != nil || n > 0
	},
	"an enqueue": func(ctx context.Context, l loot, producer, _ *pgxpool.Pool) bool {
		return write(ctx, producer, l.table, globex) == nil
	},
	"a claim": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		rows, err := l.table.On(worker).Claim(ctx, uuid.New(), time.Minute, 10, globex)
		return err != nil || len(rows) > 0
	},
	"an ack with a stolen token": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		acked, err := l.table.On(worker).Ack(ctx, l.token, l.ids)
		return err == nil || len(acked) > 0 // an error is expected, too: for this worker the row does not exist
	},
	"an ack by the function": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		var n int
		err := worker.QueryRow(ctx, "SELECT count(*) FROM example_tenants.documents_ack($1, $2)", l.token,
			l.ids).Scan(&n)
		return err != nil || n > 0
	},
	"a cancel": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		ids, err := l.table.On(worker).Cancel(ctx, l.ids, "mine now")
		return err != nil || len(ids) > 0
	},
	"a deletion": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		tag, err := worker.Exec(ctx, "DELETE FROM example_tenants.documents WHERE id = ANY ($1)", l.ids)
		return err != nil || tag.RowsAffected() > 0
	},
	"a row moved to the other tenant": func(ctx context.Context, _ loot, _, worker *pgxpool.Pool) bool {
		tag, err := worker.Exec(ctx, "UPDATE example_tenants.documents SET tenant = 'globex' WHERE tenant = 'acme'")
		return err == nil && tag.RowsAffected() > 0
	},
}
