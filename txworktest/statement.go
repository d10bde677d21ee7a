package txworktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Watch makes the connections and statements of a pool with this configuration visible to the Faults. This includes
// the connections of workers on that pool, which use its configuration, too:
//
//	db := txworktest.Schema(t, txworktest.Server(t), faults.Watch)
//
// It sets the application_name of the connections, by which the Faults find them.
func (f *Faults) Watch(config *pgxpool.Config) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admin = config.ConnConfig.Copy()
	config.ConnConfig.RuntimeParams["application_name"] = f.name
	watch := &watcher{f}
	if config.ConnConfig.Tracer == nil {
		config.ConnConfig.Tracer = watch
		return
	}
	f.admin.Tracer = nil
	config.ConnConfig.Tracer = multitracer.New(watch, config.ConnConfig.Tracer)
}

// KillAt plans the loss of a connection. It counts the watched statements, from now on, that contain the text in upper
// or lower case, and terminates the connection of the n-th, counted from 1, before the statement is sent. The
// statements are those of the handlers and of the worker, so choose a text that only a handler's statement contains. To
// lose the commit of a handler's transaction, call KillAt when the handler is called:
//
//	faults.Before(1, func(context.Context, uuid.UUID) error { faults.KillAt(1, "commit"); return nil })
func (f *Faults) KillAt(n int, text string) {
	if n < 1 || text == "" {
		panic("txworktest: KillAt counts statements from 1 and needs a part of their text")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.statements = append(f.statements, &statementFault{contains: strings.ToLower(text), left: n})
}

type statementFault struct {
	contains string
	left     int // how many statements until the fault happens; 0: it has happened
}

// reached counts a statement, and reports whether a fault happens at it.
func (f *Faults) reached(sql string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	hit := false
	for _, s := range f.statements {
		if s.left > 0 && strings.Contains(strings.ToLower(sql), s.contains) {
			s.left--
			hit = hit || s.left == 0
		}
	}
	return hit
}

// killLimit bounds how long a backend may take to end.
const killLimit = 10 * time.Second

// terminate ends the watched backends for which the condition holds, and waits until they have ended. It uses a
// connection of its own.
func (f *Faults) terminate(ctx context.Context, condition string, args ...any) error {
	f.mu.Lock()
	admin := f.admin
	f.mu.Unlock()
	if admin == nil {
		return errors.New("txworktest: no pool is watched: make it with Faults.Watch")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killLimit)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, admin)
	if err != nil {
		return fmt.Errorf("txworktest: connecting to end connections: %w", err)
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "SELECT pg_terminate_backend(a.pid, $1::bigint) FROM pg_stat_activity AS a WHERE "+
		"a.application_name = $2 AND "+condition,
		append([]any{killLimit.Milliseconds(), f.name}, args...)...)
	if err != nil {
		return fmt.Errorf("txworktest: ending connections: %w", err)
	}
	return nil
}

// A watcher is the pgx tracer of watched connections.
type watcher struct{ f *Faults }

func (w *watcher) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	w.statement(ctx, conn, data.SQL)
	return ctx
}

func (w *watcher) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (w *watcher) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		w.statement(ctx, conn, q.SQL)
	}
	return ctx
}

func (w *watcher) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (w *watcher) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func (w *watcher) statement(ctx context.Context, conn *pgx.Conn, sql string) {
	if !w.f.reached(sql) {
		return
	}
	if err := w.f.terminate(ctx, "a.pid = $3::int", int(conn.PgConn().PID())); err != nil {
		w.f.t.Error(err)
	}
}
