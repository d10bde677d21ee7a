package operate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// Conditions of a message m that a subscription s selects. They may be NULL.
const (
	hasTopic   = "(s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))"
	hasHeaders = "(s.headers IS NULL OR m.headers @> s.headers)"
)

// A SubscriptionFilter says which messages a subscription has, and whether there are such messages.
type SubscriptionFilter struct {
	Topics   []string          `json:"topics,omitempty"`  // topics, or beginnings with a *; missing: all
	Headers  map[string]string `json:"headers,omitempty"` // headers that its messages have; missing: any
	Lanes    int               `json:"lanes"`             // number of its lanes
	Tick     int64             `json:"tick"`              // the lane that is furthest behind has passed what this tick has seen; 0: nothing
	Newest   int64             `json:"newest"`            // messages at the end of the log that were looked at, at most 1000
	Matching int64             `json:"matching"`          // how many of these it selects

	Retention
}

// newestMessages is among how many messages those are looked for that a filter selects.
const newestMessages = 1000

// SubscriptionFilter reads the filter of a subscription. One that is unknown has none.
func (d *DB) SubscriptionFilter(ctx context.Context, tx workqueue.Tx, name string) (f SubscriptionFilter, err error) {
	q := func(suffix string) string { return pgx.Identifier{d.Schema, postgres.LogTable + suffix}.Sanitize() }
	var topics, headers *string
	err = tx.Query(ctx, func(scan func(...any) error) error {
		return scan(&topics, &headers, &f.Lanes, &f.Tick, &f.Newest, &f.Matching, &f.MaxAge, &f.MaxMessages)
	}, fmt.Sprintf(`SELECT to_json(s.topics || ARRAY(SELECT p || '*' FROM unnest(s.prefixes) AS p))::text,
		s.headers::text, s.lanes::integer, (SELECT min((p.seen).n) FROM %s AS p WHERE p.subscription = s.name),
		n.all, n.matching, coalesce(extract(epoch FROM s.max_age), 0)::float8, coalesce(s.max_messages, 0)
		FROM %s AS s CROSS JOIN LATERAL (
			SELECT count(*) AS all, count(*) FILTER (WHERE %s AND %s) AS matching
			FROM (SELECT * FROM %s AS m ORDER BY m.xid DESC, m.seq DESC LIMIT $2) AS m) AS n
		WHERE s.name = $1`, q("_position"), q("_subscription"), hasTopic, hasHeaders, q("")), name, newestMessages)
	if err == nil && topics != nil {
		err = json.Unmarshal([]byte(*topics), &f.Topics)
	}
	if err == nil && headers != nil {
		err = json.Unmarshal([]byte(*headers), &f.Headers)
	}
	return f, err
}
