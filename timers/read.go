package timers

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/validate"
)

// A Filter selects timers. The zero value selects the first [MaxPage].
type Filter struct {
	Prefix string             // of the key
	Status []workqueue.Status // any of these; none means all
	State  []workqueue.State  // any of these, which tell the statuses apart further; none means all
	After  string             // the last key of the previous page
	UpTo   string             // the last key that is searched, which bounds what a page costs; empty means all
	Limit  int                // the size of a page: at most [MaxPage], which is also the default
}

func (f Filter) check() error {
	if f.Limit < 0 || f.Limit > MaxPage {
		return validate.Errorf("limit", "is %d, it must be between 1 and %d, or 0 for the most", f.Limit, MaxPage)
	}
	return cmp.Or(
		checkStates(f.State),
		validate.Size("prefix", len(f.Prefix), MaxKey), validate.Text("prefix", f.Prefix),
		validate.Size("after", len(f.After), MaxKey), validate.Text("after", f.After),
		validate.Size("up to", len(f.UpTo), MaxKey), validate.Text("up to", f.UpTo),
	)
}

func (f Filter) limit() int {
	if f.Limit == 0 {
		return MaxPage
	}
	return f.Limit
}

// last is the last key that is searched, or a text that sorts after every key with the prefix.
func (f Filter) last() string {
	last := f.Prefix + strings.Repeat("\U0010FFFF", MaxKey/4+1)
	if f.UpTo != "" {
		return min(last, f.UpTo)
	}
	return last
}

func (f Filter) statuses() []int {
	statuses := make([]int, len(f.Status))
	for i, s := range f.Status {
		statuses[i] = int(s)
	}
	return statuses
}

func checkStates(states []workqueue.State) error {
	for _, s := range states {
		if _, err := workqueue.ParseState(string(s)); err != nil {
			return err
		}
	}
	return nil
}

func (f Filter) states() []string {
	names := make([]string, len(f.State))
	for i, s := range f.State {
		names[i] = string(s)
	}
	return names
}

// Get reads a timer as tx sees it. The error is [workqueue.ErrNotFound] if no timer has the key.
func (t *Timers) Get(ctx context.Context, tx workqueue.Tx, key string) (Info, error) {
	if err := checkKey(key); err != nil {
		return Info{}, err
	}
	list, err := t.read(ctx, tx, t.statements.get, key)
	switch {
	case err != nil:
		return Info{}, err
	case len(list) == 0:
		return Info{}, fmt.Errorf("txwork: timer %q %w", key, workqueue.ErrNotFound)
	}
	return list[0], nil
}

// List reads timers as tx sees them, in the byte order of their keys.
func (t *Timers) List(ctx context.Context, tx workqueue.Tx, f Filter) ([]Info, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	statement := t.statements.list
	for _, condition := range sqltext.WithinStates("t", f.statuses(), f.states()) {
		statement += "\n  AND " + condition
	}
	return t.read(ctx, tx, statement+"\nORDER BY t.key\nLIMIT $4", f.After, f.Prefix, f.last(), f.limit(), f.states())
}

func (t *Timers) read(ctx context.Context, tx workqueue.Tx, statement string, args ...any) (list []Info, err error) {
	err = t.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var i Info
		var headers, schedule *string
		err := scan(&i.ID, &i.Key, &i.Topic, &i.Payload, &headers, &i.ScheduledAt, &i.DueAt, &i.Generation, &schedule,
			&i.Status,
			&i.Attempts, &i.MaxAttempts, &i.LastError, &i.CreatedAt, &i.CompletedAt, &i.CancelledAt, &i.RearmAt)
		if err != nil {
			return err
		}
		i.Schedule, i.Headers = value(schedule), codec.ReadHeaders(headers)
		list = append(list, i)
		return nil
	}, statement, args...)
	return list, err
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
