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

// lastFlushLimit is how long the flush of a table's last worker, or of a drain, may take.
const lastFlushLimit = time.Second

// A flush is counts on their way.
type flush struct {
	number int64
	rows   string // in JSON
	again  bool   // they were sent before, and may be stored
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
	for _, c := range p.counts {
		rows = append(rows, c.Take()...)
	}
	if len(rows) > 0 {
		text, err := json.Marshal(history.Merge(rows))
		if err != nil {
			panic(err) // a bug: rows are strings and numbers
		}
		flushes++
		p.pending = &flush{number: flushes, rows: string(text)}
	}
	return p.pending
}

// send sends a beat with the counts that are due. Should these be refused, the beat goes without them.
func (p *presence) send(ctx context.Context, by teller) error {
	err := p.beat(ctx, by, true)
	if p.pending == nil {
		return err
	}
	repeated := p.pending.again
	p.answered(by, err)
	switch {
	case err == nil && repeated:
		return p.send(ctx, by) // what was counted since then
	case postgres.State(err) != "":
		return p.beat(ctx, by, false)
	}
	return err
}

// answered notes the answer to a flush.
func (p *presence) answered(by teller, err error) {
	switch {
	case err == nil:
		p.pending = nil
	case postgres.IsOwn(err) && !postgres.IsReadOnly(err):
		p.muted(by, err)
	case slices.ContainsFunc(unfit, func(class string) bool { return strings.HasPrefix(postgres.State(err), class) }):
		p.pending = nil
	default:
		p.pending.again = true
	}
}

// unfit are the classes of SQLSTATEs with which the schema would refuse the same counts again.
var unfit = []string{"22", "23", "54"}

// muted says once that the process does not write history.
func (p *presence) muted(by teller, cause error) {
	p.pending, p.mute = nil, true
	by.table.telemetry.Log(context.Background(), slog.LevelInfo, "what the process counts does not become a part of the "+
		"table history", slog.Any("error", cause))
}

// count has each beat take counts along.
func (h home) count(c *history.Counts) {
	presencesMu.Lock()
	defer presencesMu.Unlock()
	p := h.presence()
	p.counts = append(p.counts, c)
}

// countNoMore sends what was counted and no beat has taken along.
func (h home) countNoMore(c *history.Counts, by teller) {
	presencesMu.Lock()
	p := h.presence()
	p.counts = slices.DeleteFunc(slices.Clone(p.counts), func(o *history.Counts) bool { return o == c })
	some := p.leave(c.Take())
	presencesMu.Unlock()
	if some {
		p.sayNow(context.Background(), by)
	}
}

// drained sends what a drain has counted, or leaves it to a later beat: of the workers of the process or, if it has
// none, of the first drain that ends when the next beat is due.
func (h home) drained(ctx context.Context, c *history.Counts, by teller) {
	presencesMu.Lock()
	p := h.presence()
	some, others := p.leave(c.Take()), len(p.tables) > 0
	presencesMu.Unlock()
	if !some || others {
		return
	}
	if _, mine := p.turn(time.Now()); mine {
		p.sayNow(ctx, by)
	}
}

// leave keeps rows for the next beat, and tells whether there are any. The caller holds the lock.
func (p *presence) leave(rows []history.Row) (some bool) {
	if len(rows) == 0 || p.off.Load() {
		return false
	}
	p.left = history.Merge(append(p.left, rows...))
	return true
}

// sayNow sends a beat that somebody waits for. One that is on its way may have left before the last counts.
func (p *presence) sayNow(ctx context.Context, by teller) {
	ctx, cancel := context.WithTimeout(ctx, lastFlushLimit)
	defer cancel()
	for !p.saying.TryLock() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	defer p.saying.Unlock()
	p.tell(ctx, by)
}

var errNoHistory = errors.New("the schema has no tables of history, or the role may not write them")
