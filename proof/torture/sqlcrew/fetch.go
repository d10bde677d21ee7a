package sqlcrew

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

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
