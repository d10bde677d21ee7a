package log

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// Table is the table of messages.
const Table = name

// A Message is what is written. The caller has checked it.
type Message struct {
	ID         uuid.UUID
	Topic, Key string
	Headers    *string // encoded; nil: none
	Payload    []byte
	DedupKey   string

	ScheduledAt time.Time // zero: now
}

// A Session runs statements in a transaction.
type Session interface {
	Exec(ctx context.Context, sql string, args ...any) (int64, error)
	Query(ctx context.Context, row func(scan func(dest ...any) error) error, sql string, args ...any) error
}

// A Writer writes messages to the log of a schema.
type Writer struct {
	name                  string // of the log, for messages
	one, turn, many, lock string
	anyhow, find          string
}

// NewWriter makes the writer of a schema. An empty one is [workqueue.DefaultSchema].
func NewWriter(schema string) *Writer {
	v := view{schema: cmp.Or(schema, workqueue.DefaultSchema)}
	statement := func(file string) string { return sqltext.Statement(sqlTemplates, file, v) }
	return &Writer{name: v.Name(), one: statement("append_one"), turn: statement("append_turn"),
		many: statement("append_many"), lock: sqltext.LockKeys(v.WriterLock("u.key")),
		anyhow: statement("append_any"), find: statement("find_dedup")}
}

// Lock takes the locks of the writers of keys, in one order, until the transaction ends.
func (w *Writer) Lock(ctx context.Context, s Session, keys []string) error {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	n, err := s.Exec(ctx, w.lock, keys)
	if err == nil && n == 0 {
		return validate.Errorf("key", "has %d different values, and each holds one of the locks that the whole server "+
			"shares: Write fewer in one transaction, or raise max_locks_per_transaction", len(keys))
	}
	return err
}

// Append writes messages in their order, and says what became of each. If the writers of keys take turns, it takes the
// lock of one message's key itself; those of several are held already.
func (w *Writer) Append(ctx context.Context, s Session, takesTurns bool, messages []Message) ([]workqueue.Enqueued,
	error) {
	enqueued := make([]workqueue.Enqueued, len(messages))
	for i, m := range messages {
		enqueued[i].ID = m.ID
	}
	isPlain := !slices.ContainsFunc(messages, func(m Message) bool { return !m.IsPlain() })
	hasKey := takesTurns && slices.ContainsFunc(messages, func(m Message) bool { return m.Key != "" })
	if !isPlain || hasKey && len(messages) > 1 {
		return enqueued, w.appendAny(ctx, s, takesTurns, messages, enqueued)
	}
	n, err := w.append(ctx, s, hasKey, messages)
	if err == nil && n == 0 && hasKey { // the message is behind one that is scheduled
		return enqueued, w.appendAny(ctx, s, takesTurns, messages, enqueued)
	}
	if err == nil {
		err = w.stored(len(messages), n)
	}
	return enqueued, err
}

// IsPlain tells whether a message has neither a dedup key nor a time.
func (m *Message) IsPlain() bool { return m.DedupKey == "" && m.ScheduledAt.IsZero() }

// stored is the error if the table has not stored all that it took.
func (w *Writer) stored(took int, stored int64) error {
	if int64(took) == stored {
		return nil
	}
	return fmt.Errorf("txwork: %s took %d messages and stored %d: does a trigger or a rule of the table suppress them?",
		w.name, took, stored)
}

// append returns how many messages the table has stored.
func (w *Writer) append(ctx context.Context, s Session, takesTurns bool, messages []Message) (int64, error) {
	if len(messages) == 1 {
		m, statement := messages[0], w.one
		if takesTurns {
			statement = w.turn
		}
		return s.Exec(ctx, statement, m.ID, m.Topic, m.Key, m.Headers, given(m.Payload))
	}
	return s.Exec(ctx, w.many, columns(messages)...)
}

// columns are the arguments of a statement that writes several messages.
func columns(messages []Message) []any {
	ids := make([]uuid.UUID, len(messages))
	topics, keys := make([]string, len(messages)), make([]string, len(messages))
	headers, payloads := make([]*string, len(messages)), make([]any, len(messages))
	for i, m := range messages {
		ids[i], topics[i], keys[i], headers[i], payloads[i] = m.ID, m.Topic, m.Key, m.Headers, given(m.Payload)
	}
	return []any{ids, topics, keys, headers, payloads}
}

// given is a payload of which nil is an empty one.
func given(payload []byte) []byte {
	if payload == nil {
		return []byte{}
	}
	return payload
}

// Named is a table or function of the log of a schema, quoted. An empty schema is [workqueue.DefaultSchema].
func Named(schema, suffix string) string {
	return view{schema: cmp.Or(schema, workqueue.DefaultSchema)}.Named(suffix)
}
