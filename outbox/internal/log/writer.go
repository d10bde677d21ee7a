package log

import (
	"cmp"
	"context"
	"slices"

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
}

// A Session runs statements in a transaction.
type Session interface {
	Exec(ctx context.Context, sql string, args ...any) (int64, error)
}

// A Writer writes messages to the log of a schema.
type Writer struct {
	one, turn, many, lock string
}

// NewWriter makes the writer of a schema. An empty one is [workqueue.DefaultSchema].
func NewWriter(schema string) *Writer {
	v := view{schema: cmp.Or(schema, workqueue.DefaultSchema)}
	statement := func(file string) string { return sqltext.Statement(sqlTemplates, file, v) }
	return &Writer{one: statement("append_one"), turn: statement("append_turn"), many: statement("append_many"),
		lock: statement("append_lock")}
}

// Lock takes the locks of the writers of keys, in one order, until the transaction ends.
func (w *Writer) Lock(ctx context.Context, s Session, keys []string) error {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	n, err := s.Exec(ctx, w.lock, keys)
	if err == nil && n == 0 {
		return validate.Errorf("key", "has %d different values: more than the locks that the server has for one "+
			"transaction: write them in several transactions", len(keys))
	}
	return err
}

// Append writes messages in their order. A single one that takes turns takes the lock of its key's writers itself;
// those of others are held already.
func (w *Writer) Append(ctx context.Context, s Session, takesTurns bool, messages []Message) error {
	if len(messages) == 1 {
		m, statement := messages[0], w.one
		if takesTurns {
			statement = w.turn
		}
		_, err := s.Exec(ctx, statement, m.ID, m.Topic, m.Key, m.Headers, given(m.Payload))
		return err
	}
	ids := make([]uuid.UUID, len(messages))
	topics, keys := make([]string, len(messages)), make([]string, len(messages))
	headers, payloads := make([]*string, len(messages)), make([]any, len(messages))
	for i, m := range messages {
		ids[i], topics[i], keys[i], headers[i], payloads[i] = m.ID, m.Topic, m.Key, m.Headers, given(m.Payload)
	}
	_, err := s.Exec(ctx, w.many, ids, topics, keys, headers, payloads)
	return err
}

// given is a payload of which nil is an empty one.
func given(payload []byte) []byte {
	if payload == nil {
		return []byte{}
	}
	return payload
}
