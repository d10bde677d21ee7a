package workqueue

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/internal/postgres"
)

// Workers count what becomes of their rows. Each beat of the process takes the counts of its tables along, so that the
// table history outlives the process, see migrations/sql/002_reaper.up.sql. Counts whose answer was lost are sent again
// with their number, and the number tells the schema whether it has them.

// lastFlushLimit is how long the flush of a table's last worker may take.
const lastFlushLimit = time.Second

// A flush is counts on their way.
type flush struct {
	number int64
	rows   []history.Row
	again  bool // they were sent before, and may be stored
}

// flushes counts the flushes of this process.
var flushes int64

// due returns the next flush; nil if nothing was counted. The presence is saying.
func (p *presence) due() *flush {
	presencesMu.Lock()
	defer presencesMu.Unlock()
	if p.mute {
		p.left = nil
	}
	if p.mute || p.pending != nil {
		return p.pending
	}
	rows := p.left
	p.left = nil
	for _, t := range p.tables {
		rows = append(rows, t.counts.Take(t.table.spec.Table)...)
	}
	if len(rows) > 0 {
		flushes++
		p.pending = &flush{number: flushes, rows: history.Merge(rows)}
	}
	return p.pending
}

// send sends a beat with the counts that are due. Should these be refused, the beat goes without them.
func (p *presence) send(ctx context.Context, t *tableWork) error {
	err := t.system.beat(ctx, t, p, p.due)
	if p.pending == nil {
		return err
	}
	repeated := p.pending.again
	p.answered(t, err)
	switch {
	case err == nil && repeated:
		return p.send(ctx, t) // what was counted since then
	case postgres.State(err) != "":
		return t.system.beat(ctx, t, p, func() *flush { return nil })
	}
	return err
}

// answered notes the answer to a flush.
func (p *presence) answered(t *tableWork, err error) {
	switch {
	case err == nil:
		p.pending = nil
	case postgres.IsOwn(err) && !postgres.IsReadOnly(err):
		p.muted(t, err)
	case slices.ContainsFunc(unfit, func(class string) bool { return strings.HasPrefix(postgres.State(err), class) }):
		p.pending = nil
	default:
		p.pending.again = true
	}
}

// unfit are the classes of SQLSTATEs with which the schema would refuse the same counts again.
var unfit = []string{"22", "23", "54"}

// muted says once that the process does not write history.
func (p *presence) muted(t *tableWork, cause error) {
	p.pending, p.mute = nil, true
	t.table.telemetry.Log(context.Background(), slog.LevelInfo, "what the process counts does not become a part of the "+
		"table history", slog.Any("error", cause))
}

// flushLast sends what a table has counted whose last worker has ended.
func (t *tableWork) flushLast() {
	p := t.presence.Load()
	if p == nil || p.off.Load() {
		return
	}
	rows := t.counts.Take(t.table.spec.Table)
	if len(rows) == 0 {
		return
	}
	presencesMu.Lock()
	p.left = append(p.left, rows...)
	presencesMu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), lastFlushLimit)
	defer cancel()
	p.say(ctx, t)
}

// args are a flush as parameters of process_beat.
func (f *flush) args() []any {
	text, err := json.Marshal(f.rows)
	if err != nil {
		panic(err) // a bug: rows are strings and numbers
	}
	return []any{string(text), f.number, f.again}
}

var errNoHistory = errors.New("the schema has no tables of history, or the role may not write them")
