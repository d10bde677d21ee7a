package workqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/scope"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// The table process of a schema says which processes run, and what they serve, so that an owner token tells who runs a
// row. A process that claims writes its row there every sayEvery, over a connection of a runtime. However many runtimes
// and tables it has, one of them writes for all. Nothing depends on it: where it fails, this is logged once.

const (
	// sayEvery is the time between two beats. A process that has missed three is gone.
	sayEvery = 30 * time.Second
	// sayAfter is how long a process waits for its other workers to start.
	sayAfter = time.Second
	// sayLimit is how long a beat may take.
	sayLimit = 5 * time.Second
	// maxServedBytes bounds what a beat says of workers.
	maxServedBytes = 8 << 10
)

// A home is a schema in which this process says that it runs.
type home struct {
	host     string
	port     uint16
	database string
	schema   string
}

// A presence is what the runtimes of this process share in a schema.
type presence struct {
	tables []*tableWork
	counts []*history.Counts
	next   time.Time     // when the next beat is due
	off    atomic.Bool   // the procedure cannot be called
	anew   atomic.Bool   // what the role may do is asked again
	left   []history.Row // what was counted by workers that have ended, and by drains

	saying  sync.Mutex // while a beat is sent; guards the rest
	asked   bool       // whether the role may call the procedure: it may
	mute    bool       // counts are not sent
	pending *flush
}

var errNoBeat = errors.New("the schema has no procedure process_beat, or the role may not call it")

var (
	presencesMu sync.Mutex
	presences   = map[home]*presence{}
)

// A teller sends beats, about all that its process does in a schema.
type teller struct {
	table *Table // in whose name it logs
	on    func(context.Context, func(*pgxpool.Conn) error) error
}

// A served is a worker, as the table describes it. docs/sql.md shows its JSON.
type served struct {
	Table            string           `json:"table"`
	Lanes            map[string][]any `json:"lanes,omitempty"` // values by column, such as queue
	Concurrency      int              `json:"concurrency"`
	TopicConcurrency int              `json:"topic_concurrency,omitempty"`
}

// beat says that the process runs, until ctx is cancelled, unless another table of the process says so for all.
func (t *tableWork) beat(ctx context.Context) {
	at := homeOf(t.system.runtime.pool, t.table)
	p := at.join(t)
	defer at.leave(t)
	for {
		pause, mine := p.turn(time.Now())
		if mine {
			p.say(context.WithoutCancel(ctx), t.teller())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// homeOf is where a process says that it works on a table of a pool's database.
func homeOf(pool *pgxpool.Pool, t *Table) home {
	c := pool.Config().ConnConfig
	return home{c.Host, c.Port, c.Database, t.spec.Schema}
}

// teller sends beats over the connections that the workers of the table use.
func (t *tableWork) teller() teller { return teller{t.table, t.system.beside} }

// beside takes a connection of the workers.
func (s *system) beside(ctx context.Context, f func(*pgxpool.Conn) error) error {
	slot, err := conn.Taker{Slots: s.slots}.Take(ctx)
	if err != nil {
		return err
	}
	defer slot.Release()
	return s.pool.AcquireFunc(ctx, f)
}

// presence is that of the schema. The caller holds the lock.
func (h home) presence() *presence {
	p := presences[h]
	if p == nil {
		p = new(presence)
		presences[h] = p
	}
	return p
}

func (h home) join(t *tableWork) *presence {
	presencesMu.Lock()
	defer presencesMu.Unlock()
	p := h.presence()
	if len(p.tables) == 0 {
		p.next = time.Now().Add(sayAfter)
		p.off.Store(false)
		p.anew.Store(true) // the schema may have been migrated
	}
	p.tables = append(p.tables, t)
	return p
}

func (h home) leave(t *tableWork) {
	presencesMu.Lock()
	defer presencesMu.Unlock()
	p := h.presence()
	p.tables = slices.DeleteFunc(slices.Clone(p.tables), func(o *tableWork) bool { return o == t })
}

// turn tells whether the caller is to beat now, and when to ask again.
func (p *presence) turn(now time.Time) (pause time.Duration, mine bool) {
	presencesMu.Lock()
	defer presencesMu.Unlock()
	if wait := p.next.Sub(now); wait > 0 {
		return wait, false
	}
	p.next = now.Add(sayEvery)
	return sayEvery, !p.off.Load()
}

// say sends a beat, unless another table is at it.
func (p *presence) say(ctx context.Context, by teller) {
	if !p.saying.TryLock() {
		return
	}
	defer p.saying.Unlock()
	p.tell(ctx, by)
}

// tell sends a beat. The caller says.
func (p *presence) tell(ctx context.Context, by teller) {
	ctx, cancel := context.WithTimeout(ctx, sayLimit)
	defer cancel()
	err := p.send(ctx, by)
	if !errors.Is(err, errNoBeat) && (!postgres.IsOwn(err) || postgres.IsReadOnly(err)) {
		return // another beat will follow, and an outage is logged by those whose work waits for the database
	}
	p.off.Store(true)
	by.table.telemetry.Log(ctx, slog.LevelInfo, "the process does not say that it runs, so nothing names it as the holder "+
		"of a row", slog.Any("error", err))
}

// beat takes along, if it is to, the counts that are due once there is a connection.
func (p *presence) beat(ctx context.Context, by teller, counts bool) (err error) {
	defer contain.Recover(&err)
	return by.on(ctx, func(c *pgxpool.Conn) error {
		schema := quote(by.table.spec.Schema)
		if err := p.ask(ctx, c, by, schema); err != nil {
			return err
		}
		call, args := "CALL "+schema+".process_beat($1::bigint, $2::text, $3::text, $4::text, $5::text::jsonb", []any{
			processID, processHost(), runtime.Version(), cmp.Or(scope.Version(), "unknown"), p.serves()}
		if counts {
			if f := p.due(); f != nil {
				call += ", $6::text::jsonb, $7::bigint, $8::boolean"
				args = append(args, f.rows, f.number, f.again)
			}
		}
		_, err := c.Exec(ctx, call+")", args...)
		return err
	})
}

// ask finds out what the role may do, once while workers run: a call that cannot succeed would be an error in the
// server's log.
func (p *presence) ask(ctx context.Context, c *pgxpool.Conn, by teller, schema string) error {
	if p.anew.Swap(false) {
		p.asked, p.mute = false, false
	}
	if p.asked {
		return nil
	}
	const beats, flushes = ".process_beat(bigint, text, text, text, jsonb)",
		".process_beat(bigint, text, text, text, jsonb, jsonb, bigint, boolean)"
	var older, callable, writes *bool
	if err := c.QueryRow(ctx, `SELECT has_function_privilege(to_regprocedure($1::text), 'EXECUTE'),
		has_function_privilege(to_regprocedure($2::text), 'EXECUTE'),
		has_table_privilege(to_regclass($3::text), 'INSERT') AND has_table_privilege(to_regclass($4::text), 'SELECT')`,
		schema+beats, schema+flushes, schema+".history_flush", schema+".history_keep",
	).Scan(&older, &callable, &writes); err != nil {
		return err
	}
	is := func(b *bool) bool { return b != nil && *b }
	if !is(callable) && !is(older) {
		return errNoBeat
	}
	p.asked = true
	if !is(callable) || !is(writes) {
		p.muted(by, errNoHistory)
	}
	return nil
}

// processHost names the machine or the container, and the process there.
func processHost() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return conn.Storable(host) + "/" + fmt.Sprint(os.Getpid())
}

// serves describes the workers of the process in a schema.
func (p *presence) serves() string {
	presencesMu.Lock()
	tables := p.tables
	presencesMu.Unlock()
	all := []served{}
	for _, t := range tables {
		for _, w := range t.claiming() {
			one := served{Table: t.table.spec.Table, Concurrency: w.Options().Concurrency,
				TopicConcurrency: w.options.TopicConcurrency, Lanes: map[string][]any{}}
			for _, lane := range w.lanes {
				for i, column := range t.table.spec.Lanes {
					value, err := t.table.laneValue(i, lane[i])
					is := func(o any) bool { return fmt.Sprint(o) == fmt.Sprint(value) }
					if err == nil && !slices.ContainsFunc(one.Lanes[column], is) {
						one.Lanes[column] = append(one.Lanes[column], value)
					}
				}
			}
			all = append(all, one)
		}
	}
	for n := len(all); ; n /= 2 {
		text, err := json.Marshal(all[:n])
		if err == nil && len(text) <= maxServedBytes {
			return string(text)
		}
	}
}
