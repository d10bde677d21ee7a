package sqlcrew

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/semaphore"
)

// A Worker serves the tables of a schema. All fields but Listen and InTransactions are required.
type Worker struct {
	Connect        *pgx.ConnConfig
	Listen         *pgx.ConnConfig // nil: it does not listen
	Schema         string
	Consumer       string
	Lease, Poll    time.Duration
	Grace          time.Duration // of handlers, when the worker stops
	Places         int           // handlers of a table
	InTransactions bool          // no claim or settle is a statement by itself

	// Fetched is called after each fetch that returned rows or an error, before their handlers. Asked is called after
	// each that returned no error, and Settled when rows were settled.
	Fetched func(table string, asked, got int)
	Asked   func(table string)
	Settled func()
	// Handle runs a row's handler.
	Handle func(context.Context, *Row) Outcome

	process  int64
	tables   []*table
	width    *semaphore.Weighted // narrow while a suspect runs
	pool     chan *session       // for transactions of handlers
	news     chan struct{}       // a cancel was heard
	deadline context.Context     // of settles
	giveUp   context.CancelFunc
}

// A Row is a row that was fetched.
type Row struct {
	Table, Name string
	Attempt     int
	Payload     []byte

	worker    *Worker
	table     *table
	id, token string
	weight    int64
	ctx       context.Context
	cancel    context.CancelFunc
	completed bool // in its own transaction
	outcome   Outcome
}

// An Outcome is an element of what a settle takes.
type Outcome struct {
	What  string // ack, retry, fail, snooze or release
	Delay time.Duration
	Error string
}

// A table is what a worker knows of one.
type table struct {
	name, columns, lanes string
	folds                bool

	worker  *Worker
	free    chan struct{} // a token for each free place
	ended   chan *Row     // rows whose outcome is known
	kick    chan struct{} // something was heard
	settled chan struct{} // something was settled or noted, so there may be notes to fold

	mu    sync.Mutex
	heard []string
	sweep bool
	held  map[string]*Row // by id
}

// served are all tables, with the columns that name a row and are its payload.
func served() []*table {
	return []*table{
		{name: "outbox", columns: "id::text, payload", folds: true},
		{name: "inbox", columns: "message_id, payload", lanes: "consumer => $7::text, "},
		{name: "timers", columns: "key, payload"},
		{name: "jobs", columns: "id::text, args", lanes: "priority => '{1,2,3}', ", folds: true},
	}
}

const (
	errorPause  = 50 * time.Millisecond
	beatEvery   = 30 * time.Second
	mostHeard   = 1000
	settleBatch = 20
	handlerPool = 8
)

// Run works until ctx is cancelled, and then until the handlers have ended.
func (w *Worker) Run(ctx context.Context) {
	w.process = 1 + rand.Int64N(1<<48-1)
	w.tables, w.news = served(), make(chan struct{}, 1)
	w.width = semaphore.NewWeighted(int64(w.Places * len(w.tables)))
	w.deadline, w.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	defer w.giveUp()
	w.pool = make(chan *session, handlerPool)
	for range handlerPool {
		w.pool <- &session{config: w.Connect}
	}
	for _, t := range w.tables {
		t.worker, t.held = w, map[string]*Row{}
		t.free, t.ended = make(chan struct{}, w.Places), make(chan *Row, w.Places)
		t.kick, t.settled = make(chan struct{}, 1), make(chan struct{}, 1)
		for range w.Places {
			t.free <- struct{}{}
		}
	}
	beside, over := context.WithCancel(w.deadline)
	var fetching, settling, others sync.WaitGroup
	for _, t := range w.tables {
		fetching.Go(func() { t.fetch(ctx) })
		settling.Go(t.settle)
		if t.folds {
			others.Go(func() { t.fold(ctx) })
		}
	}
	others.Go(func() { w.listen(ctx) })
	others.Go(func() { w.beat(ctx) })
	others.Go(func() { w.extend(beside) })
	<-ctx.Done()
	cancel := time.AfterFunc(w.Grace, w.cancelAll)
	end := time.AfterFunc(2*w.Grace, w.giveUp)
	fetching.Wait() // with all handlers
	for _, t := range w.tables {
		close(t.ended)
	}
	settling.Wait()
	over()
	others.Wait()
	cancel.Stop()
	end.Stop()
	for range handlerPool {
		s := <-w.pool
		s.close()
	}
}

func (w *Worker) cancelAll() {
	for _, t := range w.tables {
		t.mu.Lock()
		for _, r := range t.held {
			r.cancel()
		}
		t.mu.Unlock()
	}
}

// fetch claims rows and starts their handlers, and returns when these have ended.
func (t *table) fetch(ctx context.Context) {
	s := &session{config: t.worker.Connect}
	defer s.close()
	var handlers sync.WaitGroup
	defer handlers.Wait()
	var cursor *string
	for {
		n := t.places(ctx)
		if n == 0 {
			return
		}
		heard, sweep := t.take()
		rows, end, err := t.claim(ctx, s, n, cursor, heard, sweep)
		if err != nil || len(rows) > 0 {
			t.worker.Fetched(t.name, n, len(rows))
		}
		for range n - len(rows) {
			t.free <- struct{}{}
		}
		if err != nil { // the old cursor is used again, and what was heard is not lost
			t.put(heard, sweep)
			pause(ctx, errorPause, nil)
			continue
		}
		cursor = end.cursor
		t.worker.Asked(t.name)
		for _, r := range rows {
			handlers.Go(r.run)
		}
		if !end.more {
			pause(ctx, min(end.again, t.worker.Poll), t.kick)
		}
	}
}

// places takes all free places, at least one. It is 0 when the worker stops.
func (t *table) places(ctx context.Context) (n int) {
	select {
	case <-ctx.Done():
		return 0
	case <-t.free:
	}
	if ctx.Err() != nil {
		t.free <- struct{}{}
		return 0
	}
	for n = 1; ; n++ {
		select {
		case <-t.free:
		default:
			return n
		}
	}
}

func pause(ctx context.Context, d time.Duration, kick <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-kick:
	}
}

// An end is the last row of a fetch.
type end struct {
	again  time.Duration
	more   bool
	cursor *string
}

// claim fetches rows.
func (t *table) claim(ctx context.Context, s *session, n int, cursor *string, heard []string, sweep bool) (rows []*Row,
	e end, err error) {
	w := t.worker
	token, err := w.ownerToken(ctx, s)
	if err != nil {
		return nil, e, err
	}
	var forced *bool
	if sweep {
		forced = &sweep
	}
	args := []any{token, seconds(w.Lease), n, cursor, heard, forced}
	if t.name == "inbox" {
		args = append(args, w.Consumer)
	}
	sql := fmt.Sprintf(`SELECT entry, id::text, attempts, lost, %s, again_in, more, cursor FROM %s.%s_fetch($1::uuid,
		$2::interval, $3::int, %scursor => $4::text, heard => $5::text[], sweep => $6::boolean)`, t.columns, w.Schema,
		t.name, t.lanes)
	err = s.query(ctx, w.InTransactions, sql, args, func(got pgx.Rows) error {
		var entry string
		var id, name *string
		var attempts, lost *int
		var again *float64
		var more *bool
		r := &Row{worker: w, table: t, Table: t.name, token: token}
		err := got.Scan(&entry, &id, &attempts, &lost, &name, &r.Payload, &again, &more, &e.cursor)
		switch {
		case err != nil:
		case entry == "end":
			e.again, e.more = time.Duration(*again*float64(time.Second)), *more
		default:
			r.id, r.Name, r.Attempt, r.weight = *id, *name, *attempts, w.weigh(*lost)
			rows = append(rows, r)
		}
		return err
	})
	if err != nil {
		return nil, e, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range rows {
		r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
		if lost := t.held[r.id]; lost != nil { // this process itself has it again
			lost.cancel()
		}
		t.held[r.id] = r
	}
	return rows, e, nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%f seconds", d.Seconds()) }

// ownerToken makes a token, or lets the server make it: both are documented.
func (w *Worker) ownerToken(ctx context.Context, s *session) (token string, err error) {
	if rand.IntN(2) == 0 {
		return fmt.Sprintf("%08x-%04x-8%03x-%04x-%012x", w.process>>16, w.process&0xffff, rand.IntN(1<<12),
			0x8000|rand.IntN(1<<14), rand.Int64N(1<<48)), nil
	}
	err = s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT "+w.Schema+".owner_token($1::bigint)::text", w.process).Scan(&token)
	})
	return token, err
}

// weigh says how much of the worker a row takes: one that has lost leases together with others runs beside few.
func (w *Worker) weigh(lost int) int64 {
	all := int64(w.Places * len(w.tables))
	switch lost {
	case 0:
		return 1
	case 1:
		return max(all/16, 1)
	case 2:
		return max(all/4, 1)
	}
	return all
}

func (t *table) take() (heard []string, sweep bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	heard, sweep = t.heard, t.sweep
	t.heard, t.sweep = nil, false
	return heard, sweep
}

func (t *table) put(heard []string, sweep bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard, t.sweep = append(heard, t.heard...), t.sweep || sweep
	if len(t.heard) > mostHeard {
		t.heard, t.sweep = nil, true
	}
}

// run runs the row's handler.
func (r *Row) run() {
	defer func() { r.table.ended <- r }()
	r.outcome = Outcome{What: "release"}
	if r.worker.width.Acquire(r.ctx, r.weight) != nil {
		return // it is lost, or the worker stops
	}
	defer r.worker.width.Release(r.weight)
	if r.Table == "jobs" && rand.IntN(4) == 0 && !r.step() {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			r.outcome = Outcome{What: "retry", Delay: errorPause, Error: fmt.Sprint("panic: ", p)}
		}
	}()
	r.outcome = r.worker.Handle(r.ctx, r)
}

// Complete calls do in a transaction that completes the row, and commits.
func (r *Row) Complete(ctx context.Context, do func(pgx.Tx) error) error {
	call := fmt.Sprintf("SELECT %s.%s_complete($1::uuid, $2::uuid)", r.worker.Schema, r.Table)
	args := []any{r.token, r.id}
	if r.Table == "jobs" && rand.IntN(2) == 0 {
		call, args = "SELECT "+r.worker.Schema+".jobs_complete($1::uuid, $2::uuid, $3::text)", append(args, `"done"`)
	}
	err := r.worker.pooled(ctx, func(s *session) error {
		return s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if err := do(tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, call, args...)
			return err
		})
	})
	r.completed = err == nil
	return err
}

func (w *Worker) pooled(ctx context.Context, do func(*session) error) error {
	select {
	case s := <-w.pool:
		defer func() { w.pool <- s }()
		return do(s)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// step records a step of a job, which every attempt after that has to find. It is false if the job is lost.
func (r *Row) step() (held bool) {
	schema := r.worker.Schema
	err := r.worker.pooled(r.ctx, func(s *session) error {
		return s.commit(r.ctx, func(ctx context.Context, tx pgx.Tx) error {
			var before *string
			var result string
			var recorded []byte
			err := tx.QueryRow(ctx, "SELECT max(convert_from(result, 'UTF8')) FILTER (WHERE name = 'begun') FROM "+
				schema+".jobs_steps($1::uuid, $2::uuid)", r.token, r.id).Scan(&before)
			if err != nil {
				return err
			}
			value := fmt.Sprint(r.Attempt)
			err = tx.QueryRow(ctx, "SELECT result, recorded FROM "+schema+".jobs_put_step($1::uuid, $2::uuid, "+
				"'begun', $3::text)", r.token, r.id, value).Scan(&result, &recorded)
			if err != nil {
				return err
			}
			if before != nil && (result != "kept" || string(recorded) != *before) {
				panic(fmt.Sprintf("the step of job %s was %q, and is %q (%s)", r.id, *before, recorded, result))
			}
			_, err = tx.Exec(ctx, "SELECT "+schema+".jobs_progress($1::uuid, $2::uuid, 50, 'begun')", r.token, r.id)
			return err
		})
	})
	var refused *pgconn.PgError
	return !errors.As(err, &refused) || refused.Code != "TXL01"
}

// settle settles rows until there are no more, many in one call where it can.
func (t *table) settle() {
	s := &session{config: t.worker.Connect}
	defer s.close()
	for r := range t.ended {
		rows := []*Row{r}
		for more := true; more && len(rows) < settleBatch; {
			select {
			case next, open := <-t.ended:
				if more = open; open {
					rows = append(rows, next)
				}
			default:
				more = false
			}
		}
		t.settleAll(s, slices.DeleteFunc(slices.Clone(rows), func(r *Row) bool { return r.completed }))
		t.worker.Settled()
		for _, r := range rows {
			r.cancel()
			t.mu.Lock()
			if t.held[r.id] == r {
				delete(t.held, r.id)
			}
			t.mu.Unlock()
			t.free <- struct{}{}
		}
		wake(t.settled)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// settleAll repeats a settle until it is answered: an answer that was lost is given again. It gives up when others
// should take the rows. If the server refuses it, each row is settled alone.
func (t *table) settleAll(s *session, rows []*Row) {
	refusals := 3 // of one row, such as for a deadlock
	for end := time.Now().Add(5 * t.worker.Lease); len(rows) > 0 && time.Now().Before(end); {
		sql, args := t.call(rows)
		err := s.query(t.worker.deadline, t.worker.InTransactions, sql, args, func(pgx.Rows) error { return nil })
		if err == nil || t.worker.deadline.Err() != nil {
			return
		}
		if refused := new(pgconn.PgError); errors.As(err, &refused) {
			if len(rows) == 1 && refusals == 0 {
				return // its lease ends
			}
			if len(rows) > 1 { // one of them may hold up all
				for _, r := range rows {
					t.settleAll(s, []*Row{r})
				}
				return
			}
			refusals--
		}
		time.Sleep(errorPause)
	}
}

// listen passes on what is heard, and asks for sweeps after it has not listened.
func (w *Worker) listen(ctx context.Context) {
	if w.Listen == nil {
		return
	}
	s := &session{config: w.Listen}
	defer s.close()
	channels := map[string]*table{}
	for _, t := range w.tables {
		channels[w.Schema+"."+t.name] = t
	}
	for ctx.Err() == nil {
		err := s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			for channel := range channels {
				if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
					return err
				}
			}
			return nil
		})
		for _, t := range w.tables {
			t.put(nil, true)
			wake(t.kick)
		}
		for err == nil {
			err = w.hear(ctx, s.conn, channels)
		}
		s.close()
		pause(ctx, errorPause, nil)
	}
}

// hear passes on one notification. If none comes for long, it asks whether the server is still there.
func (w *Worker) hear(ctx context.Context, conn *pgx.Conn, channels map[string]*table) error {
	waiting, cancel := context.WithTimeout(ctx, w.Lease)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		asking, cancel := context.WithTimeout(ctx, w.Lease)
		defer cancel()
		return conn.Ping(asking)
	case err != nil:
		return err
	}
	t := channels[n.Channel]
	switch {
	case n.Payload == "cancel":
		wake(w.news)
	case len(n.Payload) > 5 && n.Payload[:5] == "note:":
		wake(t.settled)
	}
	t.put([]string{n.Payload}, false)
	wake(t.kick)
	return nil
}

// fold releases rows that wait for their key or their join, as it must where no Go worker runs.
func (t *table) fold(ctx context.Context) {
	s := &session{config: t.worker.Connect}
	defer s.close()
	var cursor *string
	for ctx.Err() == nil {
		var again float64
		err := s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			var folded *int
			var busy *bool
			return conn.QueryRow(ctx, fmt.Sprintf("CALL %s.%s_fold($1::text)", t.worker.Schema, t.name),
				cursor).Scan(&cursor, &folded, &again, &busy)
		})
		next := time.Duration(again * float64(time.Second))
		if err != nil {
			next = t.worker.Poll
		}
		pause(ctx, errorPause, nil) // the notes of a moment are folded together
		pause(ctx, next, t.settled)
	}
}

// beat says who the process is.
func (w *Worker) beat(ctx context.Context) {
	s := &session{config: w.Connect}
	defer s.close()
	for ctx.Err() == nil {
		next := beatEvery
		if s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "CALL "+w.Schema+".process_beat($1::bigint, 'torture', 'sql', '1', '[]')",
				w.process)
			return err
		}) != nil {
			next = w.Poll
		}
		pause(ctx, next, nil)
	}
}

// extend moves the leases every third of their length, and at once when a cancel was heard.
func (w *Worker) extend(ctx context.Context) {
	s := &session{config: w.Connect}
	defer s.close()
	for ctx.Err() == nil {
		pause(ctx, w.Lease/3, w.news)
		for _, t := range w.tables {
			for token, ids := range t.leases() {
				t.extend(ctx, s, token, ids)
			}
		}
	}
}

// leases are the ids of the rows that are held, by token.
func (t *table) leases() map[string][]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string][]string{}
	for id := range maps.Keys(t.held) {
		all[t.held[id].token] = append(all[t.held[id].token], id)
	}
	return all
}

func (t *table) extend(ctx context.Context, s *session, token string, ids []string) {
	sql := fmt.Sprintf("SELECT id::text, result FROM %s.%s_extend($1::uuid, $2::uuid[], $3::interval)", t.worker.Schema,
		t.name)
	_ = s.query(ctx, false, sql, []any{token, ids, seconds(t.worker.Lease)}, func(got pgx.Rows) error {
		var id, result string
		if err := got.Scan(&id, &result); err != nil {
			return err
		}
		if result == "cancelled" || result == "lost" || result == "gone" {
			t.mu.Lock()
			defer t.mu.Unlock()
			if r := t.held[id]; r != nil && r.token == token {
				r.cancel()
			}
		}
		return nil
	})
}
