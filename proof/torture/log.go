//go:build unix

package torture

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// logTable is the table of the log. In the journals, what a subscription handles has its name behind it.
const logTable = "outbox_log"

// Topics of messages of the log, with and without a key.
const (
	topicKeyed = "log.keyed"
	topicFree  = "log.free"
)

// A subscribed is a subscription of the log, and how its handlers behave.
type subscribed struct {
	outbox.Subscription
	behaves func(hasKey bool) string // the mode of a handler
	batches bool                     // messages are delivered together
	only    int                      // one of the crews, or both
	late    bool                     // added in the middle, replayed and cut
}

// bothCrews read a subscription together.
const bothCrews = -1

var subscriptions = []subscribed{
	{Subscription: outbox.Subscription{Name: "lanes", Lanes: 3}, behaves: well, only: bothCrews},
	{Subscription: outbox.Subscription{Name: "keyed", Topics: []string{"log.key*"}, Lanes: 2}, behaves: well,
		batches: true, only: goCrew},
	{Subscription: outbox.Subscription{Name: "refuses", Lanes: 2}, behaves: refusing, only: goCrew},
	{Subscription: outbox.Subscription{Name: "hangs", Lanes: 2}, behaves: hanging, only: goCrew},
	{Subscription: outbox.Subscription{Name: "away", Lanes: 2}, behaves: comingAndGoing, only: bothCrews},
	{Subscription: outbox.Subscription{Name: bySQLOnly, Lanes: 2}, behaves: refusing, only: sqlCrew},
	{Subscription: outbox.Subscription{Name: "late", Lanes: 1, From: outbox.Beginning}, behaves: well, only: goCrew,
		late: true},
}

// bySQLOnly is the subscription that only programs read which use the SQL functions.
const bySQLOnly = "sql"

func well(bool) string { return modePlain }

// refusing refuses three per cent. A dead letter with a key would block it, since nobody redrives it.
func refusing(hasKey bool) string {
	switch n := rand.IntN(1000); {
	case n < 10:
		return modeFlaky
	case n < 15:
		return modePanic
	case n < 20:
		return modeSnooze
	case n < 30 && !hasKey:
		return modePermanent
	}
	return modePlain
}

// comingAndGoing is the handler of a destination that is away, for all processes, for a quarter of the time.
func comingAndGoing(bool) string {
	if time.Now().Unix()%20 < 5 {
		return modeAway
	}
	return modePlain
}

func hanging(bool) string {
	if rand.IntN(500) == 0 {
		return modeDeaf
	}
	return modePlain
}

func openLog(schema string, t workqueue.Telemetry) (*outbox.Outbox, error) {
	return outbox.Open(outbox.Options{Schema: schema, Storage: outbox.Log, Ordering: outbox.PerKey, Telemetry: t})
}

// subscribe makes those subscriptions that are there from the beginning.
func subscribe(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	box, err := openLog(schema, quiet())
	if err != nil {
		return err
	}
	return workqueue.InTx(ctx, pool, func(tx workqueue.Tx) error {
		for _, r := range subscriptions {
			if !r.late {
				if err := box.Subscribe(ctx, tx, r.Subscription); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// handlerTimeout is how long a handler of the log may take. One that is deaf takes longer than it has until its message
// is parked, and less than a worker waits for when it stops.
const (
	handlerTimeout = time.Second
	deafFor        = 3 * time.Second
	logPage        = 40
)

// readers returns relays of all subscriptions that the library reads.
func (h *handlers) readers(pool *pgxpool.Pool, o workqueue.WorkerOptions,
	log *slog.Logger) (all []func(context.Context) error, err error) {
	box, err := openLog(h.setup.Schema, workqueue.Telemetry{Logger: log, Observer: h.observeLog})
	if err != nil {
		return nil, err
	}
	o.HandlerTimeout = handlerTimeout
	for _, r := range subscriptions {
		if r.only == sqlCrew {
			continue
		}
		if _, err := h.relay(pool, box, r, o); err != nil {
			return nil, err
		}
		all = append(all, func(ctx context.Context) error { return h.read(ctx, pool, box, r, o) })
	}
	return all, nil
}

// read relays a subscription until ctx is cancelled: again if it ends, since its process may
// lack rights for a while.
func (h *handlers) read(ctx context.Context, pool *pgxpool.Pool, box *outbox.Outbox, r subscribed,
	o workqueue.WorkerOptions) error {
	for ctx.Err() == nil {
		relay, err := h.relay(pool, box, r, o)
		if err != nil {
			return err
		}
		if err := relay.Run(ctx); err != nil && ctx.Err() != nil {
			return err
		}
		_ = dawdle(ctx, lease/4)
	}
	return nil
}

func (h *handlers) relay(pool *pgxpool.Pool, box *outbox.Outbox, r subscribed,
	o workqueue.WorkerOptions) (*outbox.Relay, error) {
	o.ClaimLimit = logPage * rand.IntN(2) // without one, pages adapt
	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{Subscription: r.Name, WorkerOptions: o})
	if err != nil {
		return nil, err
	}
	one := func(ctx context.Context, m *outbox.Delivery) error {
		return told(h.logged(ctx, r, m.ID.String(), m.Key != "", m.Attempt, m.Payload))
	}
	if !r.batches {
		relay.HandleAll(one)
		return relay, nil
	}
	all := func(ctx context.Context, batch []*outbox.Delivery) ([]error, error) {
		results := make([]error, len(batch))
		for i, m := range batch {
			results[i] = one(ctx, m)
		}
		return results, nil
	}
	relay.HandleAllBatch(workqueue.BatchOptions{}, all)
	return relay, nil
}

// logged handles a message of the log, or one that was parked.
func (h *handlers) logged(ctx context.Context, r subscribed, name string, hasKey bool, attempt int,
	payload []byte) error {
	return h.handle(ctx, delivery{table: logTable + " " + r.Name, name: name, attempt: attempt,
		task: Task{r.behaves(hasKey), decode(payload).Name}})
}

// observeLog reaches two of the points.
func (h *handlers) observeLog(_ context.Context, e workqueue.Event) {
	if e.Err != nil || e.Changed == 0 {
		return
	}
	switch e.Operation {
	case "claim":
		h.points.reach(pointClaimed)
	case "settle", "ack":
		h.points.reach(pointSettled)
	}
}

// logged writes messages to the log, most of them ordered by a key.
func (p *producer) logged(ctx context.Context, tx pgx.Tx) (names []announced, err error) {
	msgs := make([]outbox.Message, p.batch())
	for i := range msgs {
		id := uuid.Must(uuid.NewV7())
		msgs[i] = outbox.Message{ID: id, Topic: topicFree, Payload: plainly(id.String())}
		if p.random.IntN(5) > 0 {
			msgs[i].Key, msgs[i].Topic = fmt.Sprint("key ", p.random.IntN(keys)), topicKeyed
		}
		names = append(names, announced{written{logTable, id.String()}, msgs[i].Key})
	}
	if !p.sql {
		_, err = p.domains.log.EnqueueMany(ctx, workqueue.Pgx(tx), msgs...)
		return names, err
	}
	msgs, names = msgs[:1], names[:1] // several would take the locks of their keys in an order of their own
	_, err = tx.Exec(ctx, "SELECT "+p.lab.schema+".outbox_log_append($1, $2, nullif($3, ''), id => $4)",
		msgs[0].Topic, msgs[0].Payload, msgs[0].Key, msgs[0].ID)
	return names, err
}

// mostTold is how many of the rows of a table that are left are told.
const mostTold = 5

// tellLeft tells what is left, as it is: the records say only how it came to be so.
func (l *lab) tellLeft(ctx context.Context) {
	tell := func(from string) {
		rows, err := l.admin.Query(ctx, fmt.Sprintf(`SELECT (to_jsonb(t) - '{payload,args,headers}'::text[])::text
			FROM %s.%s LIMIT %d`, l.schema, from, mostTold))
		var all []string
		if err == nil {
			all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			l.say("left in %s: %v", from, err)
		}
		for _, one := range all {
			l.say("left in %s: %s", from, one)
		}
	}
	for _, table := range []string{"outbox", "inbox", "timers", "jobs", "outbox_log_parked"} {
		tell(table + " AS t WHERE completed_at IS NULL ORDER BY id")
	}
	for _, table := range []string{"outbox", "jobs", "outbox_log_parked"} {
		tell(table + "_key_note AS t")
		tell(table + "_key_cursor AS t")
	}
	tell("outbox_log_position AS t WHERE (upto).n IS NOT NULL")
}

// logLeft counts the messages that subscriptions have not settled, and parked ones that have not ended.
func (l *lab) logLeft(ctx context.Context) (n int64, err error) {
	err = l.admin.QueryRow(ctx, strings.NewReplacer("@", l.schema).Replace(`
		SELECT (SELECT count(*) FROM @.outbox_log_parked WHERE completed_at IS NULL)
			+ (SELECT coalesce(sum(messages), 0) FROM @.outbox_log_lag(1000))
			+ (SELECT count(*) FROM @.outbox_log_position WHERE (upto).n IS NOT NULL)`)).Scan(&n)
	return n, err
}
