package sqlcrew

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

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
	case strings.HasPrefix(n.Payload, "note:"):
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
	for id, r := range t.held {
		all[r.token] = append(all[r.token], id)
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
