package operate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/survey"
)

// A LogMessage is a message of a log, and what has become of it in each subscription.
type LogMessage struct {
	Table     string    `db:"-" json:"table"` // with its schema
	ID        uuid.UUID `db:"id" json:"id"`
	Seq       int64     `db:"seq" json:"seq"` // its number in the log
	XID       int64     `db:"xid" json:"xid"` // the transaction that wrote it, plus the shift of the log
	CreatedAt time.Time `db:"created_at" json:"created_at"`
	Topic     string    `db:"topic" json:"topic"`
	Key       *string   `db:"key" json:"key,omitempty"` // its ordered key
	Headers   Document  `db:"headers" json:"headers"`   // by name
	Payload   Payload   `db:"-" json:"payload"`         // its size, and with --payloads what it is

	Subscriptions []MessageState `db:"-" json:"subscriptions"` // in the order of their names

	Now time.Time `db:"-" json:"-"` // of the database, when it was read
}

// A MessageState is what has become of a message in a subscription.
type MessageState struct {
	Subscription string     `db:"subscription" json:"subscription"` // its name
	Lane         int32      `db:"lane" json:"lane"`                 // lane of the message
	State        string     `db:"state" json:"state"`               // waiting, in_hand, passed, passed_or_before_start of a message that is older than the subscription, not_its_topic or not_its_headers
	Parked       *uuid.UUID `db:"parked" json:"parked,omitempty"`   // row of outbox_log_parked that it became, while that is kept
}

// messageBatch is how many messages one statement reads to find one.
const messageBatch = 50_000

// A MessageSearch looks for the newest message of a log with an id. Ids have no index, so it reads the log from its
// end.
type MessageSearch struct {
	ID   uuid.UUID
	Read int // how many messages have been read

	after []int64 // transaction and number of the last of them
}

// SearchMessage begins a search at the end of the log, or behind a place that [MessageSearch.Place] has returned.
func SearchMessage(id uuid.UUID, place string) (MessageSearch, error) {
	s := MessageSearch{ID: id, after: []int64{math.MaxInt64, math.MaxInt64}}
	if place == "" {
		return s, nil
	}
	if _, err := fmt.Sscanf(place, "%d.%d", &s.after[0], &s.after[1]); err != nil || place != s.Place() {
		return s, Refusal{"after", " is no place of a log: take it from the page before"}
	}
	return s, nil
}

// begins tells whether nothing was read yet, on a page before either.
func (s MessageSearch) begins() bool { return s.after[0] == math.MaxInt64 }

// Place is behind which message the search goes on.
func (s MessageSearch) Place() string { return fmt.Sprintf("%d.%d", s.after[0], s.after[1]) }

// next reads the next messages of the log, at most so many. It returns the place of the message once it is found, and
// whether there are more messages.
func (s *MessageSearch) next(ctx context.Context, d *DB, l *survey.Log, most int) (found []int64, more bool,
	err error) {
	var n int
	var last []int64
	err = d.Read(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, fmt.Sprintf(`
			SELECT count(*), min(ARRAY[p.xid, p.seq]), max(ARRAY[p.xid, p.seq]) FILTER (WHERE p.id = $4)
			FROM (
			    SELECT m.xid, m.seq, m.id FROM %s AS m
			    WHERE (m.xid, m.seq) < ($1, $2)
			    ORDER BY m.xid DESC, m.seq DESC LIMIT $3) AS p`, l.Table()), s.after[0], s.after[1], most, s.ID).
			Scan(&n, &last, &found)
	})
	s.Read += n
	if more = n == most; more {
		s.after = last
	}
	return found, more, err
}

// NoMessageError says that a log has no message with an id.
type NoMessageError struct {
	Table string // with its schema
	ID    uuid.UUID
}

func (e NoMessageError) Error() string {
	return fmt.Sprintf("%s has no message %s: it was removed, since all subscriptions had passed it, or never written",
		e.Table, e.ID)
}

// An UnseenError says why a message that may well exist is not shown.
type UnseenError struct{ why string }

func (e UnseenError) Error() string { return e.why }

// LogMessage finds the newest message of a log with an id, and says to looked how much it has read.
func (d *DB) LogMessage(ctx context.Context, l *survey.Log, id uuid.UUID, content int32, looked func(int)) (
	m *LogMessage, err error) {
	s, _ := SearchMessage(id, "")
	for m == nil && err == nil {
		m, err = d.FindMessage(ctx, l, &s, messageBatch, content)
		looked(s.Read)
	}
	return m, err
}

// FindMessage goes on with a search, for at most so many messages, and shows the given number of bytes of the payload.
// It returns nil if the message was not among these and there are more, and a [NoMessageError] if there are none.
func (d *DB) FindMessage(ctx context.Context, l *survey.Log, s *MessageSearch, most int, content int32) (*LogMessage,
	error) {
	if l.Filtered {
		return nil, UnseenError{fmt.Sprintf("row-level security hides rows of %s from the role: look as the owner of the "+
			"tables, or as a role with BYPASSRLS", l.Name)}
	}
	if s.begins() {
		if err := d.refuseScheduled(ctx, l, s.ID); err != nil {
			return nil, err
		}
	}
	found, more, err := s.next(ctx, d, l, most)
	switch {
	case err != nil:
		return nil, err
	case found != nil:
		return d.showMessage(ctx, l, found, content)
	case !more:
		return nil, NoMessageError{l.Schema + "." + l.Name, s.ID}
	}
	return nil, nil
}

// refuseScheduled tells of a message that is not in the log yet when that will be, and how it is cancelled.
func (d *DB) refuseScheduled(ctx context.Context, l *survey.Log, id uuid.UUID) error {
	var due *time.Time
	err := d.Read(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT max(l.due_at) FROM "+l.Q("_later")+" AS l WHERE l.id = $1", id).Scan(&due)
	})
	if err != nil || due == nil {
		return err
	}
	return UnseenError{fmt.Sprintf("message %s is scheduled for %s, and in no subscription before; "+
		"`SELECT %s('{%s}')` cancels it", id, due.UTC().Format(time.RFC3339), l.Q("_cancel"), id)}
}

// showMessage reads a message at a place, xid and number.
func (d *DB) showMessage(ctx context.Context, l *survey.Log, place []int64, content int32) (*LogMessage, error) {
	var m LogMessage
	err := d.Read(ctx, func(tx pgx.Tx) error {
		found, err := structs[LogMessage](ctx, tx, `SELECT m.id, m.seq, m.xid, m.created_at, m.topic, m.key,
			CASE WHEN m.headers IS NULL THEN '{}'
			    WHEN jsonb_typeof(m.headers) = 'object' THEN m.headers ELSE jsonb_build_object('', m.headers) END::text
			    AS headers
			FROM `+l.Table()+" AS m WHERE m.xid = $1 AND m.seq = $2 LIMIT 1", place[0], place[1])
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return errors.New("the message was removed meanwhile")
		}
		m = found[0]
		var data []byte
		err = tx.QueryRow(ctx, "SELECT octet_length(m.payload), CASE WHEN $3::int > 0 THEN "+
			"substring(m.payload FROM 1 FOR $3::int) END, now() FROM "+l.Table()+
			" AS m WHERE m.xid = $1 AND m.seq = $2 LIMIT 1", place[0], place[1], content).
			Scan(&m.Payload.Bytes, &data, &m.Now)
		if err != nil {
			return err
		}
		if content > 0 {
			m.Payload.fill(data)
		}
		m.Subscriptions, err = structs[MessageState](ctx, tx, fmt.Sprintf(messageStates, l.Table(), l.Q("_position"),
			l.Q("_subscription"), l.Q("_parked")), place[0], place[1])
		return err
	})
	if err != nil {
		return nil, err
	}
	m.Table, m.CreatedAt = l.Schema+"."+l.Name, m.CreatedAt.UTC()
	return &m, nil
}

// messageStates finds the lane of a message in each subscription, and where the lane is. The filter is that of now. Of
// a message that was written before the subscription was made, it is not known whether that began before it.
const messageStates = `
	SELECT s.name AS subscription, p.lane::integer AS lane,
	    CASE WHEN ` + hasTopic + ` IS NOT TRUE THEN 'not_its_topic'
	        WHEN ` + hasHeaders + ` IS NOT TRUE THEN 'not_its_headers'
	        WHEN m.xid < (p.seen).high AND m.xid <> ALL ((p.seen).open)
	            OR m.seq <= p.done AND m.xid < (p.upto).high AND m.xid <> ALL ((p.upto).open)
	            THEN CASE WHEN m.created_at < s.created_at THEN 'passed_or_before_start' ELSE 'passed' END
	        WHEN m.seq <= p.page AND m.xid < (p.upto).high AND m.xid <> ALL ((p.upto).open)
	            AND p.locked_until >= clock_timestamp() THEN 'in_hand'
	        ELSE 'waiting' END AS state,
	    (SELECT q.id FROM %[4]s AS q WHERE q.subscription = s.name AND q.message_id = m.id AND q.seq = m.seq LIMIT 1)
	        AS parked
	FROM (SELECT * FROM %[1]s AS m WHERE m.xid = $1 AND m.seq = $2 LIMIT 1) AS m
	CROSS JOIN %[3]s AS s
	JOIN %[2]s AS p ON p.subscription = s.name
	    AND p.lane = abs(hashtextextended(coalesce(m.key, m.id::text), 0) %% s.lanes)
	ORDER BY s.name`
