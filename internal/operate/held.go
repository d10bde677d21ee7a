package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// A Hold is what keeps a ready row from starting that is not about the row itself: its queue or topic is paused,
// the destination of its topic is unavailable, or its topic has as many rows in progress as it may have.
type Hold struct {
	Of     string     `json:"of"`              // queue or topic
	Lane   string     `json:"lane,omitempty"`  // of a topic in the inbox: the consumer
	Name   string     `json:"name"`            // of the queue or topic
	Paused bool       `json:"paused"`          // otherwise the row is aside, behind other rows of its topic
	Since  *time.Time `json:"since,omitempty"` // when it was paused, or its destination became unavailable

	Unavailable bool   `json:"unavailable,omitempty"` // the destination of the topic cannot be reached
	Cause       string `json:"cause,omitempty"`       // what was said of that last

	Next string `json:"next"` // the command, or the SQL, that resumes it, or shows what runs
}

// held returns what holds a row of a table, or nil.
func (l Layout) held(ctx context.Context, tx pgx.Tx, spec workqueue.Spec, id uuid.UUID) (h *Hold, err error) {
	switch {
	case spec.Table == "jobs":
		h, err = l.heldByQueue(ctx, tx, spec, id)
	case l.Has("aside"):
		h, err = l.heldByTopic(ctx, tx, spec, id)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if h != nil && h.Since != nil {
		*h.Since = h.Since.UTC()
	}
	return h, err
}

func (l Layout) heldByQueue(ctx context.Context, tx pgx.Tx, spec workqueue.Spec, id uuid.UUID) (*Hold, error) {
	h := &Hold{Of: "queue", Paused: true}
	query := fmt.Sprintf("SELECT q.name, q.changed_at FROM %s AS r JOIN %s AS q ON q.name = r.queue "+
		"WHERE r.id = $1 AND r.status = 0 AND q.paused", l.Table, side(spec, "_queue"))
	err := tx.QueryRow(ctx, query, id).Scan(&h.Name, &h.Since)
	h.Next = command(spec, "jobs", "resume", postgres.Shell(h.Name))
	return h, err
}

// heldByTopic takes from the index of rows aside what the table calls a topic, and in which lane it is.
func (l Layout) heldByTopic(ctx context.Context, tx pgx.Tx, spec workqueue.Spec, id uuid.UUID) (*Hold, error) {
	rows, err := tx.Query(ctx, `
		SELECT pg_catalog.pg_get_indexdef(a.attrelid, a.attnum, false)
		FROM pg_catalog.pg_attribute AS a
		WHERE a.attrelid = to_regclass($1) ORDER BY a.attnum`, side(spec, "_aside_idx"))
	if err != nil {
		return nil, err
	}
	of, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(of) < 3 {
		return nil, err
	}
	lane, on := "''", ""
	if of = of[:len(of)-2]; len(of) > 1 { // without due_at and id
		lane, on = of[0], " AND s."+of[0]+" = r.lane"
	}
	h := &Hold{Of: "topic"}
	query := fmt.Sprintf("SELECT r.lane::text, r.topic, coalesce(s.paused, false), "+
		"CASE WHEN s.paused THEN s.changed_at ELSE s.unavailable_since END, "+
		"(NOT s.paused AND s.unavailable_since IS NOT NULL) IS TRUE, coalesce(s.cause, '') "+
		"FROM (SELECT %s AS lane, coalesce(%s, '') AS topic, aside "+
		"FROM %s WHERE id = $1 AND status = 0) AS r LEFT JOIN %s AS s ON s.topic = r.topic%s "+
		"WHERE s.paused OR s.unavailable_since IS NOT NULL OR r.aside",
		lane, of[len(of)-1], l.Table, side(spec, "_topic"), on)
	err = tx.QueryRow(ctx, query, id).Scan(&h.Lane, &h.Name, &h.Paused, &h.Since, &h.Unavailable, &h.Cause)
	if err != nil {
		return nil, err
	}
	h.Next = command(spec, h.running(spec)...)
	if h.Paused {
		args, statement := postgres.ResumeTopic(spec.Schema, spec.Table, h.Lane, h.Name)
		if h.Next = statement; len(args) > 0 {
			h.Next = command(spec, args...)
		}
	}
	return h, nil
}

// running are the arguments that list what runs of a topic.
func (h *Hold) running(spec workqueue.Spec) []string {
	args := []string{"list", spec.Table, "--status", "in_progress"}
	if len(spec.Columns) == 0 { // of a table of the user's own no column is known
		return args
	}
	if h.Lane != "" {
		args = append(args, "--consumer", postgres.Shell(h.Lane))
	}
	return append(args, "--topic", postgres.Shell(h.Name))
}

// command is a command line for the schema of a table.
func command(spec workqueue.Spec, args ...string) string {
	return strings.Trim(postgres.Command(spec.Schema, args...), "`")
}

// side is the quoted and qualified name of an object beside a table.
func side(spec workqueue.Spec, suffix string) string {
	return pgx.Identifier{spec.Schema, spec.Table + suffix}.Sanitize()
}
