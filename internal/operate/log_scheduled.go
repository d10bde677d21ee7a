package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/survey"
)

// A ScheduledMessage is one that is not in its log yet.
type ScheduledMessage struct {
	ID          uuid.UUID  `db:"id" json:"id"`
	DueAt       time.Time  `db:"due_at" json:"due_at"`             // when it goes to the log: not before earlier ones of its key
	ScheduledAt time.Time  `db:"scheduled_at" json:"scheduled_at"` // when its producer wants it
	CreatedAt   time.Time  `db:"created_at" json:"created_at"`
	Topic       string     `db:"topic" json:"topic"`
	Key         *string    `db:"key" json:"key,omitempty"`
	Bytes       int64      `db:"bytes" json:"payload_bytes"`         // size of its payload
	RetryAt     *time.Time `db:"retry_at" json:"retry_at,omitempty"` // the log has refused it, and takes it again then
	Position    string     `db:"position" json:"-"`
}

// listedScheduled is the state of what is scheduled in a log.
const listedScheduled = "scheduled"

// ScheduledMessages reads a page of the messages that are not in a log yet, in the order in which they are due. The
// index of that order reads it.
func (d *DB) ScheduledMessages(ctx context.Context, l *survey.Log, limit int, after string) (*Page, error) {
	p := &Page{Table: l.Schema + "." + l.Name, Domain: l.Name, Rows: []ListedRow{}, Messages: []ScheduledMessage{}}
	where, args := "", []any{limit + 1}
	if after != "" {
		status, values, err := decodePosition(after)
		if err != nil || len(values) != 2 || status != listedScheduled {
			return nil, Refusal{"after", fmt.Sprintf(" %q is no position of this list: take it from the page before", after)}
		}
		where, args = "WHERE (l.due_at, l.ord) > ($2::text::timestamptz, $3::text::bigint)", append(args, values[0], values[1])
	}
	err := d.Read(ctx, func(tx pgx.Tx) (err error) {
		if err := tx.QueryRow(ctx, "SELECT now()").Scan(&p.Now); err != nil {
			return err
		}
		p.Messages, err = structs[ScheduledMessage](ctx, tx, fmt.Sprintf(`
			SELECT l.id, l.due_at, l.scheduled_at, l.created_at, l.topic, l.key, octet_length(l.payload) AS bytes,
			    l.retry_at, json_build_array(l.due_at::text, l.ord::text)::text AS position
			FROM %s AS l %s ORDER BY l.due_at, l.ord LIMIT $1`, l.Q("_later"), where), args...)
		return err
	})
	if len(p.Messages) > limit {
		p.Messages = p.Messages[:limit]
		p.Next = encodePosition(listedScheduled, p.Messages[limit-1].Position)
	}
	for i := range p.Messages {
		p.Messages[i].utc()
	}
	return p, err
}

func (m *ScheduledMessage) utc() {
	m.DueAt, m.ScheduledAt, m.CreatedAt = m.DueAt.UTC(), m.ScheduledAt.UTC(), m.CreatedAt.UTC()
	if m.RetryAt != nil {
		at := m.RetryAt.UTC()
		m.RetryAt = &at
	}
}
