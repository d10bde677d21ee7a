package operate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// A Page is a page of the rows in a state.
type Page struct {
	Table string      `json:"table"`          // with its schema
	Rows  []ListedRow `json:"rows"`           // in the order of claiming, or the newest first if they have ended
	Next  string      `json:"next,omitempty"` // for --after; missing on the last page
	// Messages are in place of rows in a list of what is scheduled in a log.
	Messages []ScheduledMessage `json:"messages,omitempty"`
	// Searched is how many rows were searched, if the page ended there before it was full: next goes on there.
	Searched   int        `json:"searched,omitempty"`
	SearchedTo *time.Time `json:"searched_to,omitempty"` // the time of the last of them, in lists in the order of a time
	Partial    bool       `json:"partial,omitempty"`     // row-level security hides rows from the role, so there may be more

	Now     time.Time `json:"-"` // of the database, when the page was read
	Domain  string    `json:"-"` // the table without its schema
	Columns []Column  `json:"-"` // those of the domain, without payloads
}

// A ListedRow is a row of a page.
type ListedRow struct {
	Row
	Position string `db:"position" json:"-"` // its values of the order, as a JSON array
}

// ListOptions say which page of which rows.
type ListOptions struct {
	State  string // one of [Listings]
	Limit  int
	After  string // Next of the page before
	Filter Filter
}

// List reads a page of the rows in a state. It calls looked with the number of rows that it has read to find those that
// a filter selects.
func (d *DB) List(ctx context.Context, t *workqueue.Table, o ListOptions, looked func(rows int)) (*Page, error) {
	if o.Filter.Given() || o.Filter.Among != nil || Listings[o.State].few != "" {
		return d.listFiltered(ctx, t, o, looked)
	}
	p := d.newPage(t)
	err := d.Read(ctx, func(tx pgx.Tx) error {
		l, err := ReadLayout(ctx, tx, t.Spec())
		if err != nil {
			return err
		}
		q := Listings[o.State].query(l)
		args := []any{o.Limit + 1} // one more row than is shown reveals whether there is a next page
		if o.After != "" {
			values, err := q.resume(o)
			if err != nil {
				return err
			}
			for _, v := range values {
				args = append(args, v)
			}
		}
		return p.read(ctx, tx, q, q.text(o.After != ""), args...)
	})
	p.finish(o)
	return p, err
}

func (d *DB) newPage(t *workqueue.Table) *Page {
	return &Page{Table: t.Name(), Domain: t.Spec().Table, Rows: []ListedRow{}, Partial: d.Partial}
}

// read reads the rows that a statement selects.
func (p *Page) read(ctx context.Context, tx pgx.Tx, q listQuery, text string, args ...any) (err error) {
	p.Columns = q.layout.Plain
	if err := tx.QueryRow(ctx, "SELECT now()").Scan(&p.Now); err != nil {
		return err
	}
	p.Rows, err = structs[ListedRow](ctx, tx, text, args...)
	return err
}

// firstRead is how many times as many rows as a page has are read first, since many filters match that often. Each
// further statement reads twice as many, up to [ScanBatch]: in a large table, each row may be on a page of its own.
const firstRead = 4

// listFiltered first finds the page's rows, examining a bounded number of rows in each statement, and then reads them.
func (d *DB) listFiltered(ctx context.Context, t *workqueue.Table, o ListOptions, looked func(rows int)) (*Page,
	error) {
	p := d.newPage(t)
	s, err := d.newScan(ctx, t, Listings[o.State], o.Filter)
	if err != nil {
		return p, err
	}
	if o.After != "" {
		if s.after, err = s.query.resume(o); err != nil {
			return p, err
		}
	}
	s.batch = o.Limit + 1
	if !s.plain {
		s.batch *= firstRead
	}
	var ids []uuid.UUID
	more := true
	for ; more && len(ids) <= o.Limit && s.read < MaxSearched; looked(s.read) {
		s.batch = min(s.batch, ScanBatch, MaxSearched-s.read)
		var found []foundPlace
		if found, more, err = s.next(ctx); err != nil {
			return p, err
		}
		for _, f := range found {
			ids = append(ids, f.ID)
		}
		s.batch *= 2
	}
	if more && len(ids) <= o.Limit {
		p.Searched, p.SearchedTo = s.read, s.to
		position, _ := json.Marshal(s.after) // cannot fail: they are texts
		p.Next = encodePosition(o.State, string(position))
	}
	ids = ids[:min(len(ids), o.Limit+1)]
	is, args := s.query.has(), []any{ids}
	if o.Filter.Among != nil { // a timer that is set anew may have got another topic
		among, err := s.query.layout.among(o.Filter.Among, func([]string) string { return "$2::text[]" })
		if err != nil {
			return p, err
		}
		is, args = is+" AND "+among, append(args, o.Filter.Among)
	}
	err = d.Read(ctx, func(tx pgx.Tx) error {
		text := fmt.Sprintf("SELECT %s FROM %s AS r WHERE r.id = ANY ($1::uuid[]) AND %s ORDER BY %s", s.query.fields(),
			s.query.layout.Table, is, s.query.ordering())
		return p.read(ctx, tx, s.query, text, args...)
	})
	p.finish(o)
	return p, err
}

func (p *Page) finish(o ListOptions) {
	if len(p.Rows) > o.Limit {
		p.Rows = p.Rows[:o.Limit]
		p.Next = encodePosition(o.State, p.Rows[o.Limit-1].Position)
	}
	if p.SearchedTo != nil {
		*p.SearchedTo = p.SearchedTo.UTC()
	}
	for i := range p.Rows {
		p.Rows[i].utc()
	}
}

// resume returns the position after which the page begins.
func (q listQuery) resume(o ListOptions) ([]string, error) {
	status, values, err := decodePosition(o.After)
	if err != nil || len(values) != len(q.keys) {
		return nil, Refusal{"after", fmt.Sprintf(" %q is no position of this table: take it from the page before", o.After)}
	}
	if status != o.State {
		return nil, Refusal{"after", " is a position among rows with --status " + status}
	}
	return values, nil
}

// encodePosition makes a position that is opaque to the user and safe in a shell and in a URL.
func encodePosition(status, values string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(status + " " + values))
}

func decodePosition(position string) (status string, values []string, err error) {
	text, err := base64.RawURLEncoding.DecodeString(position)
	if err != nil {
		return "", nil, err
	}
	status, encoded, _ := strings.Cut(string(text), " ")
	return status, values, json.Unmarshal([]byte(encoded), &values)
}
