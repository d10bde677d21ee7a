package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// A shownFilter says which messages a subscription has, and whether there are such messages.
type shownFilter struct {
	Topics   []string          `json:"topics,omitempty"`  // topics, or beginnings with a *; missing: all
	Headers  map[string]string `json:"headers,omitempty"` // headers that its messages have; missing: any
	Lanes    int               `json:"lanes"`             // number of its lanes
	Tick     int64             `json:"tick"`              // the lane that is furthest behind has passed what this tick has seen; 0: nothing
	Newest   int64             `json:"newest"`            // messages at the end of the log that were looked at, at most 1000
	Matching int64             `json:"matching"`          // how many of these it selects
}

// newestMessages is among how many messages those are looked for that a filter selects.
const newestMessages = 1000

// filterOf reads the filter of a subscription. One that is unknown has none.
func (d *database) filterOf(ctx context.Context, tx workqueue.Tx, name string) (f shownFilter, err error) {
	q := func(suffix string) string { return pgx.Identifier{d.Schema, postgres.LogTable + suffix}.Sanitize() }
	var topics, headers *string
	err = tx.Query(ctx, func(scan func(...any) error) error {
		return scan(&topics, &headers, &f.Lanes, &f.Tick, &f.Newest, &f.Matching)
	}, `SELECT to_json(s.topics || ARRAY(SELECT p || '*' FROM unnest(s.prefixes) AS p))::text, s.headers::text,
		s.lanes::integer, (SELECT min((p.seen).n) FROM `+q("_position")+` AS p WHERE p.subscription = s.name), n.all, n.matching
		FROM `+q("_subscription")+` AS s CROSS JOIN LATERAL (
			SELECT count(*) AS all, count(*) FILTER (WHERE
				(s.topics IS NULL OR m.topic = ANY (s.topics) OR m.topic ^@ ANY (s.prefixes))
				AND (s.headers IS NULL OR m.headers @> s.headers)) AS matching
			FROM (SELECT * FROM `+q("")+` AS m ORDER BY m.xid DESC, m.seq DESC LIMIT $2) AS m) AS n
		WHERE s.name = $1`, name, newestMessages)
	if err == nil && topics != nil {
		err = json.Unmarshal([]byte(*topics), &f.Topics)
	}
	if err == nil && headers != nil {
		err = json.Unmarshal([]byte(*headers), &f.Headers)
	}
	return f, err
}

// begin says where a subscription begins.
func (f shownFilter) begin() string {
	if f.Tick == 0 {
		return "it begins with the oldest message that is kept"
	}
	return fmt.Sprintf("it begins behind tick %d", f.Tick)
}

// printMatching says so if a filter selects none of the newest messages.
func (f shownFilter) printMatching(w io.Writer) error {
	if f.Newest == 0 || f.Matching > 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "none of the newest %s of the log has its topics and headers\n",
		plural(int(f.Newest), "message"))
	return err
}

// printFilters shows what a change has made of a filter.
func printFilters(w io.Writer, before, after shownFilter) error {
	g := newGrid(w, "", "TOPICS", "HEADERS", "LANES")
	for _, f := range []struct {
		when string
		shownFilter
	}{{"before", before}, {"after", after}} {
		g.add(f.when, shownTopics(f.Topics), shownHeaders(f.Headers), fmt.Sprint(f.Lanes))
	}
	if err := g.flush(); err != nil {
		return err
	}
	return after.printMatching(w)
}

func shownTopics(topics []string) string {
	if topics == nil {
		return "*"
	}
	return cell(strings.Join(topics, " "), cellWidth)
}

func shownHeaders(headers map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		all = append(all, name+"="+headers[name])
	}
	if all == nil {
		return "-"
	}
	return cell(strings.Join(all, " "), cellWidth)
}

// refuseUnknown refuses the name of a subscription that the log of the schema does not have.
func (d *database) refuseUnknown(ctx context.Context, subscription string) error {
	var known bool
	err := d.Pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+
		pgx.Identifier{d.Schema, postgres.LogTable + "_subscription"}.Sanitize()+" AS s WHERE s.name = $1)",
		subscription).Scan(&known)
	if err != nil || known {
		return err
	}
	return usagef("--subscription %q is not that of a subscription: %s shows which there are", subscription,
		postgres.Command(d.Schema, "subscriptions", "list"))
}
