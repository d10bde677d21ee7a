package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// AuditTable is the table that says what operators did, without its schema.
const AuditTable = "audit"

// An Actor is who acts, and from where. The table notes the database's user as well, which no program can change.
type Actor struct{ Who, Origin string }

// An Act is what an operator does.
type Act struct {
	Verb   string // such as redrive
	Target string // the table, without its schema
	About  any    // what it concerns, as JSON; at most some kilobytes
}

// An AboutSchedule is what the audit says of a change of a schedule.
type AboutSchedule struct {
	Schedule string    `json:"schedule"`
	From     time.Time `json:"from,omitzero"` // of a backfill
	To       time.Time `json:"to,omitzero"`
}

// The events of the audit. An action by a filter has a row for its beginning, each batch, and its end; other actions
// have one row.
const (
	eventDone    = "done"
	eventBegun   = "begun"
	eventBatch   = "batch"
	eventAlive   = "alive" // no news, but that its process goes on
	eventStopped = "stopped"
	eventResumed = "resumed"
	eventEnded   = "ended"
)

// Act runs do in a transaction, together with the row of the audit: both take effect, or none. It tells the audit how
// many rows do has changed.
func (d *DB) Act(ctx context.Context, a Act, do func(workqueue.Tx) (rows int, err error)) error {
	return d.record(ctx, uuid.New(), eventDone, a, do)
}

// Note writes the row of the audit in the transaction that performs the action, for an action of which the table is not
// known before.
func (d *DB) Note(ctx context.Context, tx workqueue.Tx, a Act, rows int) error {
	return d.note(ctx, tx, uuid.New(), eventDone, a, rows)
}

// Begin notes an action that takes several transactions. An action that has begun already is [ErrBegun].
func (d *DB) Begin(ctx context.Context, action uuid.UUID, a Act) error {
	err := d.event(ctx, action, eventBegun, a)
	if postgres.IsTaken(err) {
		return ErrBegun
	}
	return err
}

// ErrBegun says that an action has begun before, for example because its form was sent twice.
var ErrBegun = errors.New("the action has begun already")

// Batch runs do, a part of an action, in a transaction with its row of the audit. What changed nothing has no row.
func (d *DB) Batch(ctx context.Context, action uuid.UUID, a Act, do func(workqueue.Tx) (rows int, err error)) error {
	a.About = nil // the row of the beginning says it
	return d.record(ctx, action, eventBatch, a, do)
}

// End notes that an action has come to its end or, with a reason, that it stopped before. It does so even if ctx has
// ended.
func (d *DB) End(ctx context.Context, action uuid.UUID, a Act, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
	defer cancel()
	a.About = nil
	if reason == "" {
		return d.event(ctx, action, eventEnded, a)
	}
	a.About = map[string]string{"reason": reason}
	return d.event(ctx, action, eventStopped, a)
}

func (d *DB) event(ctx context.Context, action uuid.UUID, event string, a Act) error {
	return d.record(ctx, action, event, a, func(workqueue.Tx) (int, error) { return 0, nil })
}

func (d *DB) record(ctx context.Context, action uuid.UUID, event string, a Act,
	do func(workqueue.Tx) (int, error)) error {
	return d.Write(ctx, func(tx workqueue.Tx) error {
		rows, err := do(tx)
		if err != nil || rows == 0 && event == eventBatch {
			return err
		}
		return d.note(ctx, tx, action, event, a, rows)
	})
}

// note writes a row of the audit.
func (d *DB) note(ctx context.Context, tx workqueue.Tx, action uuid.UUID, event string, a Act, rows int) error {
	if a.About == nil {
		a.About = struct{}{}
	}
	about, err := json.Marshal(a.About)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO "+d.audit()+" (who, origin, action, event, verb, target, about, rows) "+
		"VALUES ($1::text, $2::text, $3::uuid, $4::text, $5::text, $6::text, $7::text::jsonb, $8::integer)",
		noted(cmp.Or(d.Actor.Who, "unknown"), maxActor), noted(d.Actor.Origin, maxActor), action, event, a.Verb,
		a.Target, strings.ReplaceAll(string(about), `\u0000`, `\ufffd`), rows)
	if err != nil {
		return AuditError{err: err}
	}
	return nil
}

// audit is the quoted and qualified name of the table.
func (d *DB) audit() string { return pgx.Identifier{d.Schema, AuditTable}.Sanitize() }

// maxActor is how many bytes the table takes of who acts, and of where from.
const maxActor = 255

// noted makes a text one that the server stores, of at most so many bytes.
func noted(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// An AuditError says that an action was not performed because the audit cannot record it.
type AuditError struct {
	Advice string // what to do; empty if only the error of the database may say that
	err    error
}

// Unwrap returns the error of the database.
func (e AuditError) Unwrap() error { return e.err }

func (e AuditError) Error() string {
	text := "nothing was changed, because the audit cannot record it"
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text + ": " + e.err.Error()
}

// advised adds what to do to an error of the audit.
func (d *DB) advised(ctx context.Context, err error) error {
	var e AuditError
	if !errors.As(err, &e) {
		return err
	}
	switch postgres.State(e.err) {
	case "42P01", "42703": // undefined table, column
		e.Advice = postgres.Migrate(d.Schema, AuditTable)
	case "42501": // insufficient_privilege
		var g postgres.Grantee
		if d.Pool.QueryRow(ctx, postgres.SelectGrantee, "operator", d.Schema).Scan(g.Fields()...) == nil {
			e.Advice = g.Grant("operator", d.Schema)
		}
	}
	return e
}

// An AuditFilter narrows down the audit. An empty field excludes nothing.
type AuditFilter struct {
	Who, Verb, Table string
	Action           uuid.UUID
	Since            time.Time
	Tables           []string // nil: of all tables
}

// An Audited is a row of the audit.
type Audited struct {
	ID     int64     `db:"id" json:"-"`
	At     time.Time `db:"at" json:"at"`                 // when it was written, by the clock of the database
	Who    string    `db:"who" json:"who"`               // who acted, as the program says
	User   string    `db:"db_user" json:"database_user"` // the database's user
	Origin string    `db:"origin" json:"origin"`         // where from: an address or a host
	Action uuid.UUID `db:"action" json:"action"`         // the same in all rows of an action that took several transactions
	Event  string    `db:"event" json:"event"`           // done; or begun, batch, stopped, resumed and ended
	Verb   string    `db:"verb" json:"verb"`             // what was done
	Table  string    `db:"target" json:"table"`          // to rows, queues, topics or schedules of which table
	About  Document  `db:"about" json:"about"`           // ids, filter or name
	Rows   int       `db:"rows" json:"rows"`             // how many rows were changed
}

// An AuditPage is a page of the audit, the latest first.
type AuditPage struct {
	Rows       []Audited  `json:"rows"`                  // the latest first
	Next       int64      `json:"next,omitempty"`        // for --after; missing on the last page
	Searched   int        `json:"searched,omitempty"`    // rows that were searched, if the page ended there before it was full
	SearchedTo *time.Time `json:"searched_to,omitempty"` // the time of the last of them
	Partial    bool       `json:"partial,omitempty"`     // row-level security hides rows from the role
	KeptFor    float64    `json:"kept_for_seconds"`      // how long rows are kept
}

// Audit reads the rows before an id, or the latest if it is 0. Like a list, it searches a bounded number of rows.
func (d *DB) Audit(ctx context.Context, f AuditFilter, before int64, limit int) (p *AuditPage, err error) {
	p = &AuditPage{Rows: []Audited{}}
	before = cmp.Or(before, math.MaxInt64)
	window := fmt.Sprintf("(SELECT * FROM %s WHERE id < $1::bigint ORDER BY id DESC LIMIT %d) AS a",
		d.audit(), ScanBatch)
	err = d.Read(ctx, func(tx pgx.Tx) error {
		p.Rows, err = structs[Audited](ctx, tx, `
			SELECT id, at, who, db_user, origin, action, event, verb, target, about::text AS about, rows FROM `+window+`
			WHERE event <> '`+eventAlive+`' AND at >= $2::timestamptz AND ($3::text = '' OR who = $3)
			  AND ($4::text = '' OR verb = $4)
			  AND ($5::text = '' OR target = $5) AND ($6::uuid IS NULL OR action = $6)
			  AND ($7::text[] IS NULL OR target = ANY ($7))
			ORDER BY id DESC LIMIT $8`, before, f.Since, f.Who, f.Verb, f.Table,
			uuid.NullUUID{UUID: f.Action, Valid: f.Action != uuid.Nil}, f.Tables, limit+1)
		if err != nil {
			return err
		}
		if err := p.about(ctx, tx, d); err != nil || len(p.Rows) > limit {
			return err
		}
		return p.searched(ctx, tx, window, before, f.Since)
	})
	if len(p.Rows) > limit {
		p.Rows = p.Rows[:limit]
		p.Next = p.Rows[limit-1].ID
	}
	for i := range p.Rows {
		p.Rows[i].At = p.Rows[i].At.UTC()
	}
	return p, err
}

// searched says where a page that is not full ended before all rows were searched.
func (p *AuditPage) searched(ctx context.Context, tx pgx.Tx, window string, before int64, since time.Time) error {
	var n int
	var last *int64
	var to *time.Time
	err := tx.QueryRow(ctx, "SELECT count(*), min(id), min(at) FROM "+window, before).Scan(&n, &last, &to)
	if err == nil && n == ScanBatch && to.After(since) {
		p.Next, p.Searched, p.SearchedTo = *last, n, to
	}
	return err
}

// about says whether row-level security hides rows, and how long they are kept.
func (p *AuditPage) about(ctx context.Context, tx pgx.Tx, d *DB) error {
	keep := pgx.Identifier{d.Schema, "audit_keep"}.Sanitize()
	return tx.QueryRow(ctx, "SELECT pg_catalog.row_security_active($1::text::regclass), extract(epoch FROM "+
		"coalesce((SELECT max_age FROM "+keep+"), interval '90 days'))::float8", d.audit()).
		Scan(&p.Partial, &p.KeptFor)
}
