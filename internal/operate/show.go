package operate

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
)

// A Shown is everything about a row.
type Shown struct {
	Table string `db:"-" json:"table"` // with its schema
	Row
	OwnerToken *uuid.UUID `db:"owner_token" json:"owner_token,omitempty"` // token of the claim that holds the row, or held it last
	Headers    Document   `db:"headers" json:"headers"`                   // by name, such as traceparent; what is no object, or too long, is under the empty name
	Retry      *Document  `db:"retry" json:"retry,omitempty"`             // the row's own backoff
	Held       *Hold      `db:"-" json:"held,omitempty"`                  // what keeps it from starting: a pause of its queue or topic, or the rows of its topic that run
	Process    *Holder    `db:"-" json:"process,omitempty"`               // in progress: the process that runs it, if that says that it runs
	Payloads   Payloads   `db:"-" json:"payloads"`                        // by the name of the column

	Now    time.Time `db:"-" json:"-"` // of the database, when it was read
	Layout Layout    `db:"-" json:"-"`
	Domain string    `db:"-" json:"-"` // the table without its schema
}

// Payloads are keyed by column name. A NULL is left out.
type Payloads map[string]Payload

// A Payload is the part of a payload that may be shown.
type Payload struct {
	Bytes  int     `json:"bytes"`            // its size
	Text   *string `json:"text,omitempty"`   // with --payloads, if it is UTF-8
	Base64 []byte  `json:"base64,omitempty"` // with --payloads, if it is not
}

// WholePayload is more bytes than PostgreSQL stores in a value.
const WholePayload = 1 << 30

// Show reads everything about a row, and the given number of bytes of each payload. A row that is not there is a
// [GoneError]; unless parts is nil, so is one outside of these parts of the table, see [Layout.DividedBy].
func (d *DB) Show(ctx context.Context, t *workqueue.Table, id uuid.UUID, content int32, parts []string) (*Shown,
	error) {
	var r Shown
	err := d.Read(ctx, func(tx pgx.Tx) (err error) {
		layout, err := ReadLayout(ctx, tx, t.Spec())
		if err != nil {
			return err
		}
		query := fmt.Sprintf("SELECT %s, r.owner_token, CASE WHEN r.headers IS NULL THEN '{}' "+
			"WHEN octet_length(r.headers::text) > %d THEN jsonb_build_object('', %s) "+
			"WHEN jsonb_typeof(r.headers) = 'object' THEN r.headers ELSE jsonb_build_object('', r.headers) END::text "+
			"AS headers, r.retry::text AS retry, %s AS columns FROM %s AS r WHERE r.id = $1",
			coreFields, maxHeaders, bounded("r.headers::text", maxHeaders),
			layout.plainJSON(), layout.Table)
		args := []any{id}
		if parts != nil {
			among, err := layout.among(parts, func([]string) string { return "$2::text[]" })
			if err != nil {
				return err
			}
			query, args = query+" AND "+among, append(args, parts)
		}
		found, err := structs[Shown](ctx, tx, query, args...)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return GoneError{t.Name(), id}
		}
		r = found[0]
		r.Table, r.Domain, r.Layout, r.Payloads = t.Name(), t.Spec().Table, layout, Payloads{}
		if err := tx.QueryRow(ctx, "SELECT now()").Scan(&r.Now); err != nil {
			return err
		}
		if r.Held, err = r.Layout.held(ctx, tx, t.Spec(), id); err != nil {
			return err
		}
		return r.readPayloads(ctx, tx, content)
	})
	if err != nil {
		return nil, err
	}
	r.utc()
	if r.Status == RowStatus(workqueue.InProgress) && r.OwnerToken != nil {
		token := r.OwnerToken.String()
		found, err := survey.Processes(ctx, d.reader(), d.Schema, token)
		if err != nil {
			return nil, err
		}
		r.Process = HolderOf(found, token)
	}
	return &r, nil
}

// A GoneError says that a table has no such row: it never had, or the row was deleted.
type GoneError struct {
	Table string // with its schema
	ID    uuid.UUID
}

func (g GoneError) Error() string { return fmt.Sprintf("%s has no row %s", g.Table, g.ID) }

func (r *Shown) readPayloads(ctx context.Context, tx pgx.Tx, content int32) error {
	for _, c := range r.Layout.Payloads {
		bytes := "r." + c.Quoted()
		if c.Type != "bytea" {
			bytes = fmt.Sprintf("convert_to(%s::text, 'UTF8')", bytes)
		}
		query := fmt.Sprintf("SELECT octet_length(%[1]s), CASE WHEN $2::int > 0 THEN substring(%[1]s FROM 1 FOR $2::int) END "+
			"FROM %[2]s AS r WHERE r.id = $1",
			bytes, r.Layout.Table)
		var size *int
		var data []byte
		if err := tx.QueryRow(ctx, query, r.ID, content).Scan(&size, &data); err != nil {
			return err
		}
		if size == nil {
			continue // NULL
		}
		p := Payload{Bytes: *size}
		if content > 0 {
			p.fill(data)
		}
		r.Payloads[c.Name] = p
	}
	return nil
}

// fill sets the content. A character that the bound has cut is left out.
func (p *Payload) fill(data []byte) {
	if cut := len(data) < p.Bytes; cut {
		for n := 1; n < utf8.UTFMax && n < len(data) && !utf8.Valid(data); n++ {
			if whole := data[:len(data)-n]; utf8.Valid(whole) {
				data = whole
			}
		}
	}
	if utf8.Valid(data) {
		text := string(data)
		p.Text = &text
		return
	}
	p.Base64 = data
}
