package kills

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
)

func openInbox(schema string) (*inbox.Inbox, error) {
	return inbox.Open(inbox.Options{Schema: schema, DedupWindow: 7 * 24 * time.Hour, Telemetry: quiet()})
}

// consume is a broker's consumer: it takes the deliveries for this member, several at a time, and acknowledges each
// once the inbox has it. A consumer that was killed gets the deliveries again that it had not acknowledged.
func consume(ctx context.Context, pool *pgxpool.Pool, schema, member string) error {
	box, err := openInbox(schema)
	if err != nil {
		return err
	}
	// If a process is told to stop while it reads its deliveries, that is not a failure.
	rows, err := pool.Query(context.WithoutCancel(ctx),
		"SELECT delivery, id FROM deliveries WHERE member = $1 AND NOT acknowledged ORDER BY delivery", member)
	if err != nil {
		return err
	}
	type delivery struct{ Delivery, ID int }
	mine, err := pgx.CollectRows(rows, pgx.RowToStructByPos[delivery])
	if err != nil {
		return err
	}
	queue := make(chan delivery, len(mine))
	for _, d := range mine {
		queue <- d
	}
	close(queue)
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			for d := range queue {
				if err := take(ctx, pool, box, d.Delivery, d.ID); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil && ctx.Err() == nil {
			return err
		}
	}
	<-ctx.Done() // until it is told to stop
	return nil
}

func take(ctx context.Context, pool *pgxpool.Pool, box *inbox.Inbox, delivery, id int) error {
	key := inbox.Key{Consumer: "ledger", Source: "broker", MessageID: fmt.Sprint(id)}
	for ctx.Err() == nil {
		result, err := box.Process(ctx, pool, key, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO effects (id) VALUES ($1)", id)
			return err
		})
		if err != nil {
			return err
		}
		if result.Answer == inbox.InProgress { // the broker redelivers it
			time.Sleep(rand.N(5 * time.Millisecond))
			continue
		}
		_, err = pool.Exec(ctx, "UPDATE deliveries SET acknowledged = true, answer = $2 WHERE delivery = $1", delivery,
			result.Answer.String())
		return err
	}
	return ctx.Err()
}

// The same messages are delivered three times each, in random order, to three processes: each effect occurs exactly
// once.
func TestInboxDeliveredThreeTimes(t *testing.T) {
	t.Parallel()
	messages := size(2_000, 20_000)
	db := pgtest.New(t)
	box, err := openInbox(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	up, _, err := box.DDL()
	if err != nil {
		t.Fatal(err)
	}
	execute(t, db, up)
	execute(t, db, "CREATE TABLE effects (id integer)") // without a key, so that a second effect shows
	execute(t, db, `CREATE TABLE deliveries AS
		SELECT row_number() OVER (ORDER BY random())::int AS delivery, id, (floor(random() * 3))::int::text AS member, false AS acknowledged, '' AS answer
		FROM generate_series(1, $1::int) AS id, generate_series(1, 3)`, messages)
	execute(t, db, "ALTER TABLE deliveries ADD PRIMARY KEY (delivery)")
	start := time.Now()
	crew := startCrew(t, db, "inbox", 3, time.Second)
	crew.until("deliveries", 3*messages, func() int {
		return ask[int](t, db, "SELECT count(*)::int FROM deliveries "+
			"WHERE acknowledged")
	})
	kills := crew.killed()
	crew.stop()

	effects := ask[int](t, db, "SELECT count(*)::int FROM effects")
	distinct := ask[int](t, db, "SELECT count(DISTINCT id)::int FROM effects")
	processed := ask[int](t, db, "SELECT count(*)::int FROM deliveries WHERE answer = 'processed'")
	if effects != messages || distinct != messages || processed > messages {
		t.Errorf("%d messages: %d effects, of %d messages; %d deliveries say processed", messages, effects, distinct,
			processed)
	}
	t.Logf("messages %d, deliveries %d, effects %d, processes killed %d, %.1f s", messages, 3*messages, effects, kills,
		time.Since(start).Seconds())
}
