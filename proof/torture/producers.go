//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/proof/torture/sqlcrew"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// A shop is what the producers share.
type shop struct {
	lab       *lab
	domains   *domains
	committed *tally
	ids       atomic.Int64 // ids of transactions
	enqueued  [crews]atomic.Int64
	refused   [crews]atomic.Value // a string: why the last write failed
}

// A producer writes into all domains. It must be used by one goroutine only.
type producer struct {
	*shop
	pool   *pgxpool.Pool
	random *rand.Rand
	recent map[string][]string // names by table, to be delivered or set again
	sql    bool                // it writes by the SQL functions
	ofCrew bool                // it belongs to a crew, and not to a fault or to a check
}

func newProducer(s *shop, pool *pgxpool.Pool, seed uint64) *producer {
	return &producer{shop: s, pool: pool, random: rand.New(rand.NewPCG(s.lab.options.Seed, seed)),
		recent: map[string][]string{}}
}

const (
	biggestBatch = 20
	keys         = 100 // number of keys of ordered messages
	remembered   = 50  // number of names of each table
	maxDelay     = 400 * time.Millisecond
	txLimit      = 10 * time.Second
)

// A written is the name of a row that a transaction has written, with its table.
type written struct{ table, name string }

// An announced is a row that a transaction is about to commit, with the key by which it is ordered.
type announced struct {
	written
	key string
}

func announce(table, name string) announced { return announced{written: written{table, name}} }

// produce writes one transaction, or delivers one message from outside.
func (p *producer) produce() {
	switch n := p.random.IntN(100); {
	case n < 30:
		p.transact(p.messages)
	case n < 50 && !p.lab.logHigh.Load():
		p.transact(p.logged)
	case n < 67:
		p.transact(p.jobs)
	case n < 82:
		p.transact(p.timers)
	case n < 91:
		p.transact(p.receive)
	default:
		p.process()
	}
}

// transact commits nine times in ten and otherwise rolls back. Sometimes it keeps the transaction open for a while.
func (p *producer) transact(write func(context.Context, pgx.Tx) ([]announced, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), txLimit)
	defer cancel()
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		time.Sleep(retryBase)
		return
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	names, err := write(ctx, tx)
	if err != nil {
		p.refused[crewOf(p.sql)].Store(err.Error())
		return // nothing was announced or committed
	}
	id := p.announce(names)
	if p.random.IntN(20) == 0 {
		time.Sleep(rand.N(10 * work))
	}
	if p.random.IntN(10) == 0 {
		p.settle(id, names, rolledBack(tx.Rollback(ctx)))
		return
	}
	p.settle(id, names, outcomeOfCommit(tx.Commit(ctx)))
}

// transactSurely retries until the transaction has committed.
func (p *producer) transactSurely(ctx context.Context, write func(context.Context, pgx.Tx) ([]announced, error)) error {
	return p.lab.retry(ctx, func(ctx context.Context) error {
		tx, err := p.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(context.WithoutCancel(ctx))
		names, err := write(ctx, tx)
		if err != nil {
			return err
		}
		id := p.announce(names)
		err = tx.Commit(ctx)
		p.settle(id, names, outcomeOfCommit(err))
		return err
	})
}

// rolledBack is the outcome without a COMMIT, whatever becomes of the connection.
func rolledBack(error) Outcome { return RolledBack }

// announce records what is about to be committed.
func (s *shop) announce(names []announced) int64 {
	id := s.ids.Add(1)
	intents := make([]line, len(names))
	for i, w := range names {
		intents[i] = line{What: lineIntent, Run: id, Table: w.table, Name: w.name, Key: w.key}
	}
	s.lab.journal.append(intents...)
	return id
}

func (p *producer) settle(id int64, names []announced, o Outcome) {
	if o == Committed {
		p.committed.add(names)
	}
	if o == Committed && p.ofCrew {
		p.enqueued[crewOf(p.sql)].Add(int64(len(names)))
	}
	p.lab.journal.append(line{What: lineOutcome, Run: id, Result: o.String()})
}

// outcomeOfCommit trusts only the server's reply. If the error ended the session (FATAL), the commit may have happened
// before.
func outcomeOfCommit(err error) Outcome {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return Committed
	case errors.Is(err, pgx.ErrTxCommitRollback), errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR":
		return RolledBack
	}
	return Maybe
}

// mode chooses how the handler of a row behaves.
func (p *producer) mode() string {
	switch n := p.random.IntN(1000); {
	case n < 600:
		return modeTx
	case n < 820:
		return modePlain
	case n < 890:
		return modeFlaky
	case n < 940:
		return modeSnooze
	case n < 970:
		return modePermanent
	case n < 998:
		return modePanic
	}
	return modeSlow
}

func (p *producer) batch() int { return 1 + p.random.IntN(biggestBatch) }

// delay is 0 for most rows.
func (p *producer) delay() time.Duration {
	if p.random.IntN(3) > 0 {
		return 0
	}
	return time.Duration(p.random.Int64N(int64(maxDelay)))
}

func (p *producer) task(name string) Task { return Task{p.mode(), name} }

func (p *producer) payload(name string) []byte {
	encoded, err := json.Marshal(p.task(name))
	if err != nil {
		panic(err) // cannot fail for two strings
	}
	return encoded
}

// messages writes outbox messages, most of them ordered by a key.
func (p *producer) messages(ctx context.Context, tx pgx.Tx) (names []announced, err error) {
	msgs := make([]outbox.Message, p.batch())
	for i := range msgs {
		id := uuid.Must(uuid.NewV7())
		msgs[i] = outbox.Message{ID: id, Topic: topic, Payload: p.payload(id.String())}
		if p.random.IntN(5) > 0 {
			msgs[i].Key = fmt.Sprint("key ", p.random.IntN(keys))
		}
		names = append(names, announced{written{"outbox", id.String()}, msgs[i].Key})
	}
	if p.sql {
		return names, p.send(ctx, tx, msgs)
	}
	_, err = p.domains.outbox.EnqueueMany(ctx, workqueue.Pgx(tx), msgs...)
	return names, err
}

// jobs writes jobs, a few of them with unique keys.
func (p *producer) jobs(ctx context.Context, tx pgx.Tx) (names []announced, err error) {
	inserts := make([]jobs.Insert, p.batch())
	for i := range inserts {
		id := uuid.Must(uuid.NewV7())
		inserts[i] = jobs.Insert{Args: p.task(id.String()), ID: id, Delay: p.delay()}
		if p.random.IntN(10) == 0 {
			inserts[i].Unique = &jobs.Unique{Key: fmt.Sprint("unique ", p.random.IntN(10))}
		}
	}
	if p.sql {
		return p.enqueue(ctx, tx, inserts)
	}
	enqueued, err := p.domains.jobs.EnqueueMany(ctx, workqueue.Pgx(tx), inserts...)
	for _, e := range enqueued {
		if !e.Duplicate {
			names = append(names, announce("jobs", e.ID.String()))
		}
	}
	return names, err
}

// timers sets timers, some of them again, and cancels a few.
func (p *producer) timers(ctx context.Context, tx pgx.Tx) (names []announced, err error) {
	set := make([]timers.Timer, p.batch())
	for i := range set {
		key := "timer " + uuid.NewString()
		if again := p.recent["timers"]; len(again) > 0 && p.random.IntN(5) == 0 {
			key = again[p.random.IntN(len(again))]
		}
		p.remember("timers", key)
		set[i] = timers.Timer{Key: key, Topic: topic, Delay: p.delay(), Payload: p.payload(key)}
		names = append(names, announce("timers", key))
	}
	if p.sql {
		err = p.set(ctx, tx, set)
	} else {
		_, err = p.domains.timers.SetMany(ctx, workqueue.Pgx(tx), set...)
	}
	switch {
	case err != nil || p.random.IntN(10) > 0:
		return names, err
	case p.sql:
		return names, sqlcrew.CancelTimer(ctx, tx, p.lab.schema, set[0].Key)
	}
	_, err = p.domains.timers.Cancel(ctx, workqueue.Pgx(tx), set[0].Key)
	return names, err
}

// receive stores messages from outside, some of them twice.
func (p *producer) receive(ctx context.Context, tx pgx.Tx) (names []announced, err error) {
	msgs := make([]inbox.Message, p.batch())
	for i := range msgs {
		name := p.delivered("received")
		msgs[i] = inbox.Message{Consumer: consumer, Source: topic, MessageID: name, Payload: p.payload(name),
			BodyHash: sameHash}
	}
	if p.sql {
		return p.store(ctx, tx, msgs)
	}
	results, err := p.domains.inbox.ReceiveMany(ctx, workqueue.Pgx(tx), msgs...)
	for i, r := range results {
		if r.Answer == inbox.Stored {
			names = append(names, announce("inbox", msgs[i].MessageID))
		}
	}
	return names, err
}

// sameHash is the body hash of all messages, because the content is made up anew at every delivery.
var sameHash = make([]byte, 32)

// delivered returns the name of a new message, or of one that was delivered before.
func (p *producer) delivered(kind string) string {
	if again := p.recent[kind]; len(again) > 0 && p.random.IntN(4) == 0 {
		return again[p.random.IntN(len(again))]
	}
	name := kind + " " + uuid.NewString()
	p.remember(kind, name)
	return name
}

func (p *producer) remember(kind, name string) {
	names := append(p.recent[kind], name)
	p.recent[kind] = names[max(0, len(names)-remembered):]
}
