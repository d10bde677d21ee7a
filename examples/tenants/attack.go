package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// A loot is what an attacker knows about another tenant: a claim, whose id and owner token have leaked, and a batch.
type loot struct {
	client *jobs.Client
	box    *outbox.Outbox
	token  uuid.UUID
	ids    []uuid.UUID
	batch  uuid.UUID
	after  uuid.UUID // the job that the batch releases
}

// attack tries everything that the policies have to prevent, first with all the rights of another tenant, and then
// without a tenant. It returns the attempts that succeeded.
func attack(ctx context.Context, logins *logins, client *jobs.Client, box *outbox.Outbox) (through []string,
	err error) {
	l, err := steal(ctx, logins, client)
	if err != nil {
		return nil, err
	}
	l.box = box
	for _, tenant := range []string{acme, ""} {
		producer, worker := logins.as("producer", tenant), logins.as("worker", tenant)
		for what, attempt := range attempts {
			if attempt(ctx, l, producer, worker) {
				through = append(through, what+" by "+tenant)
			}
		}
		for what, statement := range statements {
			if l.changes(ctx, worker, statement) {
				through = append(through, what+" by "+tenant)
			}
		}
		for what, query := range looks {
			if n, err := l.count(ctx, worker, query); err != nil || n > 0 {
				through = append(through, fmt.Sprintf("%s by %s: %d, %v", what, tenant, n, err))
			}
		}
	}
	victim := client.Table().On(logins.as("worker", globex))
	released, err := victim.Release(ctx, l.token, l.ids)
	if err == nil && len(released) != len(l.ids) {
		through = append(through, "the end of a job") // a settle has come through
	}
	return through, err
}

// steal makes the victim have what an attacker wants: a job in progress with a step on record, whose earlier attempt
// has failed.
func steal(ctx context.Context, logins *logins, client *jobs.Client) (l loot, err error) {
	worker := logins.as("worker", globex)
	victim := client.Table().On(worker)
	l = loot{client: client, token: workqueue.NewOwnerToken()}
	for _, end := range []func([]uuid.UUID) error{
		func(ids []uuid.UUID) error {
			_, err := victim.Abandon(ctx, l.token, ids, 0, "the secret of globex")
			return err
		},
		func(ids []uuid.UUID) error {
			l.ids = ids
			_, err := worker.Exec(ctx, "INSERT INTO jobs_step (job_id, name, result) VALUES ($1, 's', '1')", ids[0])
			return err
		},
	} {
		rows, err := victim.Claim(ctx, l.token, time.Minute, 1, globex, 2)
		if err != nil {
			return loot{}, err
		}
		if len(rows) != 1 {
			return loot{}, errors.New("there is nothing to steal")
		}
		if err := end([]uuid.UUID{rows[0].ID}); err != nil {
			return loot{}, err
		}
	}
	return l, worker.QueryRow(ctx, "SELECT id, on_complete FROM example_tenants.jobs_join").Scan(&l.batch, &l.after)
}

// count counts the rows of another tenant that an attacker sees.
func (l loot) count(ctx context.Context, pool *pgxpool.Pool, query string) (n int, err error) {
	err = pool.QueryRow(ctx, "SELECT count(*) FROM "+l.fill(query)).Scan(&n)
	return n, err
}

// changes tells whether a statement changed anything, or did what cannot be counted.
func (l loot) changes(ctx context.Context, pool *pgxpool.Pool, statement string) bool {
	tag, err := pool.Exec(ctx, l.fill(statement))
	counted := tag.Insert() || tag.Update() || tag.Delete() || tag.Select()
	return err == nil && (tag.RowsAffected() > 0 || !counted)
}

func (l loot) fill(statement string) string {
	return strings.NewReplacer("{job}", l.ids[0].String(), "{token}", l.token.String(), "{batch}", l.batch.String(),
		"{after}", l.after.String()).Replace(statement)
}

// attempts are attacks in Go. Each returns whether it succeeded.
var attempts = map[string]func(ctx context.Context, l loot, producer, worker *pgxpool.Pool) bool{
	"an enqueue": func(ctx context.Context, l loot, producer, _ *pgxpool.Pool) bool {
		return nil == inTx(ctx, producer, func(tx workqueue.Tx) error {
			_, err := l.client.Enqueue(ctx, tx, jobs.Insert{Args: Print{globex, 0}, Queue: globex})
			return err
		})
	},
	"a claim": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		rows, err := l.client.Table().On(worker).Claim(ctx, workqueue.NewOwnerToken(), time.Minute, 10, globex, 2)
		return err != nil || len(rows) > 0
	},
	"an ack with a stolen token": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		acked, err := l.client.Table().On(worker).Ack(ctx, l.token, l.ids)
		return err == nil || len(acked) > 0 // an error is expected, too: for this worker the row does not exist
	},
	"a cancel": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		ids, err := l.client.Table().On(worker).Cancel(ctx, l.ids, "mine now")
		return err != nil || len(ids) > 0
	},
	"a cancelled batch": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		return nil == inTx(ctx, worker, func(tx workqueue.Tx) error {
			_, err := l.client.CancelBatch(ctx, tx, l.batch, "mine now")
			return err
		})
	},
	"a job for a batch": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		return nil == inTx(ctx, worker, func(tx workqueue.Tx) error {
			_, err := l.client.AddToBatch(ctx, tx, l.batch, printOf(acme, 0, nil))
			return err
		})
	},
	"a batch that is listed": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) (found bool) {
		err := inTx(ctx, worker, func(tx workqueue.Tx) error {
			list, err := l.client.Joins().List(ctx, tx, join.ListOptions{Label: "the secret of globex"})
			found = len(list) > 0
			return err
		})
		return found || err != nil
	},
	"a limit": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		return nil == inTx(ctx, worker, func(tx workqueue.Tx) error {
			return l.client.SetLimits(ctx, tx, globex, jobs.Limits{MaxRunning: 1})
		})
	},
	"a paused schedule": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		return nil == inTx(ctx, worker, func(tx workqueue.Tx) error {
			return l.client.Schedules().Pause(ctx, tx, "globex:pulse")
		})
	},
	"a paused topic": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		return nil == inTx(ctx, worker, func(tx workqueue.Tx) error { return l.box.Pause(ctx, tx, "globex:post") })
	},
	"a resumed topic": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		return nil == inTx(ctx, worker, func(tx workqueue.Tx) error { return l.box.Resume(ctx, tx, mail(globex)) })
	},
	"a message": func(ctx context.Context, l loot, producer, _ *pgxpool.Pool) bool {
		return nil == inTx(ctx, producer, func(tx workqueue.Tx) error {
			_, err := l.box.Enqueue(ctx, tx, outbox.Message{Topic: mail(globex)})
			return err
		})
	},
	"a claim of messages": func(ctx context.Context, l loot, _, worker *pgxpool.Pool) bool {
		rows, err := l.box.Table().On(worker).Claim(ctx, workqueue.NewOwnerToken(), time.Minute, 10)
		return err != nil || len(rows) > 0
	},
}
