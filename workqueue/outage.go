package workqueue

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/txwork/txwork/internal/contain"

	"github.com/jackc/pgx/v5/pgconn"
)

// An outage is the time in which a worker's statements do not reach a database that takes them. It is logged at its
// begin and at its end, not for every statement that fails in it.
type outage struct {
	mu       sync.Mutex
	since    time.Time // zero: there is none
	failures int
}

// note is told of every statement of the worker.
func (o *outage) note(logger *slog.Logger, err error) {
	o.mu.Lock()
	since, failures := o.since, o.failures
	switch {
	case err == nil:
		o.since, o.failures = time.Time{}, 0
	case isOutage(err):
		if o.failures++; since.IsZero() {
			o.since = time.Now()
		}
	}
	o.mu.Unlock()
	switch ctx := context.Background(); {
	case err == nil && !since.IsZero():
		logger.LogAttrs(ctx, slog.LevelInfo, "database answers again", slog.Duration("after", time.Since(since)), slog.Int("failures", failures))
	case since.IsZero() && isOutage(err):
		logger.LogAttrs(ctx, slog.LevelError, "database does not answer; the worker goes on trying", slog.Any("error", err))
	}
}

func (o *outage) ongoing() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero()
}

// outageCodes are the classes and codes by which a server, or a pooler before it, says that it takes no statements:
// lost connections, too few resources, a shutdown or start, and a standby.
var outageCodes = []string{"08", "53", "57P", "25006"}

// isOutage tells an error that every statement would meet from one that lies in the statement or its rows.
func isOutage(err error) bool {
	if err == nil || contain.Is(err, context.Canceled) || contain.Is(err, contain.ErrPanicked) || contain.Is(err, ErrSchemaVersion) || contain.Is(err, ErrPoolMode) {
		return false
	}
	if _, refused := contain.As[*SettleError](err); refused || contain.Is(err, ErrInvalid) {
		return false
	}
	pg, ok := contain.As[*pgconn.PgError](err)
	if !ok {
		return true
	}
	for _, code := range outageCodes {
		if strings.HasPrefix(pg.Code, code) {
			return true
		}
	}
	return false
}
