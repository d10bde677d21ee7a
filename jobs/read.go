package jobs

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/validate"
)

// An Info is a job as it is stored. Times are the database's.
type Info struct {
	ID           uuid.UUID
	Kind         string
	Queue        string
	Priority     Priority
	Args         []byte // as they are stored, see [Client.DecodeArgs]
	Status       workqueue.Status
	Waiting      bool // Ready, but held back, behind its key or until other jobs have ended
	Attempts     int
	MaxAttempts  int
	DueAt        time.Time
	CreatedAt    time.Time
	CompletedAt  *time.Time // when it was done or failed
	CancelledAt  *time.Time // when it was cancelled
	LastError    string
	Headers      map[string]string
	UniqueKey    string // as it is stored; empty for none, or when it is free again
	Schedule     string // the schedule that wrote the job; empty for none
	Progress     *int   // in per cent; nil: none was recorded
	ProgressNote string
	Output       []byte // as it is stored, see [Client.DecodeOutput]; nil: none was recorded
}

// Get reads a job as tx sees it. The error is [workqueue.ErrNotFound] if there is no such job: it was never enqueued,
// or has been purged.
func (c *Client) Get(ctx context.Context, tx workqueue.Tx, id uuid.UUID) (Info, error) {
	list, err := c.read(ctx, tx, c.statements.get+"\nWHERE t.id = $1::pg_catalog.uuid", id)
	if err != nil {
		return Info{}, err
	}
	if len(list) == 0 {
		return Info{}, fmt.Errorf("txwork: job %s %w", id, workqueue.ErrNotFound)
	}
	return list[0], nil
}

// A Filter selects jobs. The zero value selects the newest [MaxPage].
type Filter struct {
	Kind     string
	Queue    string
	Schedule string
	// Status selects jobs in one of these states. Default: in any.
	Status []workqueue.Status
	// State selects jobs in one of these states, which tell the statuses apart further. Default: in any.
	State []workqueue.State
	// Before is the last id of the previous page.
	Before uuid.UUID
	// From is the smallest id that is searched, which bounds what a page costs of which few jobs match. Default: any.
	From uuid.UUID
	// Limit is the size of the page; 0 means [MaxPage], which is also the maximum.
	Limit int
}

// List reads jobs in the descending order of their ids, which is newest first for the default ids. Page with
// [Filter].Before. Its cost grows with the number of jobs that it has to skip, which [Filter].From bounds.
func (c *Client) List(ctx context.Context, tx workqueue.Tx, f Filter) ([]Info, error) {
	if f.Limit < 0 || f.Limit > MaxPage {
		return nil, validate.Errorf("Limit", "is %d, it must be between 1 and %d, or 0 for the most", f.Limit, MaxPage)
	}
	f.Limit = cmp.Or(f.Limit, MaxPage)
	for _, s := range f.State {
		if _, err := workqueue.ParseState(string(s)); err != nil {
			return nil, err
		}
	}
	where, args := f.where()
	args = append(args, f.Limit)
	return c.read(ctx, tx, fmt.Sprintf("%s%s\nORDER BY t.id DESC\nLIMIT $%d::integer", c.statements.get, where,
		len(args)), args...)
}

// where returns the filter as an SQL condition and its parameters.
func (f Filter) where() (string, []any) {
	var conditions []string
	var args []any
	add := func(condition string, arg any) {
		args = append(args, arg)
		conditions = append(conditions, strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(args))))
	}
	if f.Kind != "" {
		add("t.kind = ?::pg_catalog.text", f.Kind)
	}
	if f.Queue != "" {
		add("t.queue = ?::pg_catalog.text", f.Queue)
	}
	if f.Schedule != "" {
		add("t.schedule = ?::pg_catalog.text", f.Schedule)
	}
	statuses, states := make([]int, len(f.Status)), make([]string, len(f.State))
	for i, s := range f.Status {
		statuses[i] = int(s)
	}
	for i, s := range f.State {
		states[i] = string(s)
	}
	if len(states) > 0 {
		add(sqltext.Qualified("?::text[] && "+sqltext.StatesOf("t")), states)
	}
	conditions = append(conditions, sqltext.WithinStates("t", statuses, states)...)
	if f.Before != uuid.Nil {
		add("t.id < ?::pg_catalog.uuid", f.Before)
	}
	if f.From != uuid.Nil {
		add("t.id >= ?::pg_catalog.uuid", f.From)
	}
	if len(conditions) == 0 {
		return "", nil
	}
	return "\nWHERE " + strings.Join(conditions, "\n  AND "), args
}

func (c *Client) read(ctx context.Context, tx workqueue.Tx, query string, args ...any) ([]Info, error) {
	var list []Info
	err := c.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var i Info
		var headers string
		err := scan(&i.ID, &i.Kind, &i.Queue, &i.Priority, &i.Args, &i.Status, &i.Waiting, &i.Attempts,
			&i.MaxAttempts, &i.DueAt, &i.CreatedAt, &i.CompletedAt, &i.CancelledAt, &i.LastError, &headers,
			&i.UniqueKey, &i.Schedule, &i.Progress, &i.ProgressNote, &i.Output)
		i.Headers = codec.ReadHeaders(&headers)
		list = append(list, i)
		return err
	}, query, args...)
	return list, err
}

// DecodeArgs decodes a job's args into the value that the pointer points to.
func (c *Client) DecodeArgs(ctx context.Context, i Info, into any) error {
	return c.decode(ctx, i.owner(), argsField, i.Args, into)
}

// DecodeOutput decodes a job's output like [Client.DecodeArgs].
func (c *Client) DecodeOutput(ctx context.Context, i Info, into any) error {
	if i.Output == nil {
		return fmt.Errorf("txwork: job %s has recorded no output", i.ID)
	}
	return c.decode(ctx, i.owner(), outputField, i.Output, into)
}

func (i Info) owner() owner { return owner{i.ID, i.Kind, i.Schedule, i.Headers} }

// An Attempt is how an attempt ended.
type Attempt struct {
	Attempt int // 1 is the first; the count begins again when the job is redriven
	EndedAt time.Time
	Outcome AttemptOutcome
	Error   string
}

// AttemptOutcome is how an attempt ended.
type AttemptOutcome string

// How an attempt can end.
const (
	AttemptSucceeded AttemptOutcome = "succeeded"
	AttemptFailed    AttemptOutcome = "failed"
	AttemptLost      AttemptOutcome = "lost" // its lease expired: the process died, or was cut off
	AttemptCancelled AttemptOutcome = "cancelled"
)

// History reads how the attempts of a job ended, the oldest first. It does not list an attempt in progress, nor
// attempts that were given back by [workqueue.Snooze] or a shutdown.
func (c *Client) History(ctx context.Context, tx workqueue.Tx, id uuid.UUID) ([]Attempt, error) {
	var list []Attempt
	err := c.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var a Attempt
		err := scan(&a.Attempt, &a.EndedAt, &a.Outcome, &a.Error)
		list = append(list, a)
		return err
	}, c.statements.history, id)
	return list, err
}
