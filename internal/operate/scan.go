package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// ScanBatch is how many rows one statement of a scan reads, however many of them the filter matches.
const ScanBatch = 5000

// MaxSearched is how many rows are read to find those that a filter selects. A page then ends, full or not, and says
// how far it has come; a count says that there may be more. Each row may be on a page of its own in a large table.
const MaxSearched = ScanBatch

// A scan finds the rows of a state that match a filter. It reads the state's index in batches, each in its own
// transaction, so a long scan does not hold back vacuum or block other sessions.
type scan struct {
	db     *DB
	query  listQuery
	filter Filter
	after  []string // the position of the last row that was read; none at the beginning
	read   int
	batch  int        // how many rows a statement reads
	plain  bool       // each row that is read matches
	to     *time.Time // of the last row that was read, if the rows are in the order of a time
}

// A foundPlace is a row that a scan has read: one that matches, or the last of a batch.
type foundPlace struct {
	ID       uuid.UUID  `db:"id"`
	Position string     `db:"position"`
	At       *time.Time `db:"at"`
	Matches  bool       `db:"matches"`
	Number   int        `db:"number"`  // in the batch
	Matched  int        `db:"matched"` // in a count: how many of the batch match
}

// newScan begins at the first row of a listing.
func (d *DB) newScan(ctx context.Context, t *workqueue.Table, l Listing, f Filter) (*scan, error) {
	s := &scan{db: d, filter: f, batch: ScanBatch}
	err := d.Read(ctx, func(tx pgx.Tx) error {
		table, err := ReadLayout(ctx, tx, t.Spec())
		s.query = l.query(table)
		if err != nil || f.Key == "" {
			return err
		}
		indexes, err := readKeyIndexes(ctx, tx, t.Spec())
		s.query.found = s.query.byKey(indexes)
		return err
	})
	if err == nil {
		var matches string
		_, matches, _, err = f.condition(s.query, 0) // refuses at once what the table cannot answer
		s.plain = matches == "true"
	}
	return s, err
}

// next reads the next batch, and returns the rows that match and whether more rows may follow.
func (s *scan) next(ctx context.Context) (found []foundPlace, more bool, err error) {
	all, more, err := s.advance(ctx, batchText)
	for _, p := range all {
		if p.Matches {
			found = append(found, p)
		}
	}
	return found, more, err
}

// count reads the next batch, and returns how many of its rows match and whether more rows may follow.
func (s *scan) count(ctx context.Context) (matched int, more bool, err error) {
	all, more, err := s.advance(ctx, countText)
	for _, last := range all {
		matched = last.Matched
	}
	return matched, more, err
}

// advance reads the next batch by a statement whose last row is that of the batch.
func (s *scan) advance(ctx context.Context, format string) (all []foundPlace, more bool, err error) {
	text, args, err := s.statement(format)
	if err != nil {
		return nil, false, err
	}
	err = s.db.Read(ctx, func(tx pgx.Tx) (err error) {
		all, err = structs[foundPlace](ctx, tx, text, args...)
		return err
	})
	if err != nil || len(all) == 0 {
		return nil, false, err
	}
	last := all[len(all)-1]
	s.read += last.Number
	s.to = last.At
	if err := json.Unmarshal([]byte(last.Position), &s.after); err != nil {
		return nil, false, err
	}
	return all, last.Number == s.batch, nil
}

const (
	// batchText takes those rows of a batch that are of interest, in its order.
	batchText = `SELECT s.id, json_build_array(%s)::text AS position, s.at, s.matches, s.number
FROM (SELECT b.*, row_number() OVER () AS number, count(*) OVER () AS size FROM (%s) AS b) AS s
WHERE s.matches OR s.number = s.size
ORDER BY s.number`
	// countText takes the last row of a batch, and counts.
	countText = `SELECT s.id, json_build_array(%s)::text AS position, s.at, s.matches, s.number, s.matched
FROM (SELECT b.*, row_number() OVER () AS number, count(*) OVER () AS size,
	count(*) FILTER (WHERE b.matches) OVER () AS matched FROM (%s) AS b) AS s
WHERE s.number = s.size`
)

func (s *scan) statement(format string) (text string, args []any, err error) {
	args = []any{s.batch}
	for _, v := range s.after {
		args = append(args, v)
	}
	bounds, matches, values, err := s.filter.condition(s.query, len(args))
	at := "NULL"
	if s.query.keys[0].Type == "timestamptz" {
		at = "r." + s.query.keys[0].Quoted()
	}
	keys, position := make([]string, len(s.query.keys)), make([]string, len(s.query.keys))
	for i, k := range s.query.keys {
		keys[i], position[i] = fmt.Sprintf("r.%s AS k%d", k.Quoted(), i), fmt.Sprintf("s.k%d::text", i)
	}
	fields := fmt.Sprintf("r.id, %s, %s::timestamptz AS at, %s AS matches", strings.Join(keys, ", "), at, matches)
	text = fmt.Sprintf(format, strings.Join(position, ", "), s.query.selecting(fields, bounds, s.after != nil))
	return text, append(args, values...), err
}

// position selects the values of the order, as text.
func (q listQuery) position() string {
	texts := make([]string, len(q.keys))
	for i, k := range q.keys {
		texts[i] = "r." + k.Quoted() + "::text"
	}
	return strings.Join(texts, ", ")
}
