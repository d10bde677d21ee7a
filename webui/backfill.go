package webui

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// fieldTime is a time as the fields of forms have it.
const fieldTime = "2006-01-02T15:04:05"

// timeOf reads a time of a form, by the clocks of a zone unless it names its own.
func timeOf(text string, zone *time.Location) (at time.Time, err error) {
	for _, layout := range []string{time.RFC3339, fieldTime, "2006-01-02T15:04"} {
		if at, err = time.ParseInLocation(layout, text, zone); err == nil {
			return at, nil
		}
	}
	return at, operate.Refusal{Field: "time", Problem: " cannot be read: want one such as 2027-03-01T08:30"}
}

// A backfillPage is what backfill.html shows.
type backfillPage struct {
	Table, Name, Expr string
	Rows              string // the table that it writes rows to
	Own               string // the zone of the schedule
	Paused            bool

	From, To time.Time
	Zone     *time.Location
	Problem  string // why it cannot be previewed
	Asked    bool   // a range was given

	Times   []backfillTime
	Missing int
	Sum     string // of what would be written, so that what is confirmed is what was shown
}

// A backfillTime is an occurrence in the range.
type backfillTime struct {
	periodic.Occurrence
	Local string
}

// Field is a time as its field has it.
func (p backfillPage) Field(t time.Time) string { return t.In(p.Zone).Format(fieldTime) }

// askBackfill previews a backfill, and asks.
func askBackfill(ctx context.Context, r *request) (view, error) {
	table, name := r.query.Get("table"), r.query.Get("schedule")
	known, of, err := r.backfilled(ctx, table)
	if err != nil {
		return view{}, err
	}
	p := backfillPage{Table: table, Name: name, Rows: rowsOf(table), Asked: r.query.Has("from")}
	v := view{title: "Backfill " + postgres.Name(name), page: "backfill.html", tables: known}
	err = r.db().Read(ctx, func(tx pgx.Tx) error {
		if err := p.read(ctx, tx, pgx.Identifier{r.handler.Schema, table}.Sanitize()); err != nil {
			return err
		}
		if err := p.period(r.query); err != nil || !p.Asked {
			return err
		}
		return p.preview(ctx, workqueue.Pgx(tx), of)
	})
	var refusal operate.Refusal
	if err = refused(err); errors.As(err, &refusal) { // the form is below it
		p.Problem, err, v.problem.status = refusal.Error(), nil, http.StatusBadRequest
	}
	v.data = p
	return v, err
}

// read reads what the page says of the schedule.
func (p *backfillPage) read(ctx context.Context, tx pgx.Tx, table string) error {
	err := tx.QueryRow(ctx, "SELECT expr, zone, paused, now() FROM "+table+" WHERE name = $1::text", p.Name).
		Scan(&p.Expr, &p.Own, &p.Paused, &p.To)
	if errors.Is(err, pgx.ErrNoRows) {
		return workqueue.ErrNotFound
	}
	return err
}

// period reads the range and its zone from the address. The default is the last day.
func (p *backfillPage) period(query url.Values) (err error) {
	if p.Zone, err = zoneOf(cmp.Or(query.Get("zone"), p.Own)); err != nil {
		p.Zone = time.UTC
		return err
	}
	p.To = p.To.Truncate(time.Minute)
	if p.From = p.To.AddDate(0, 0, -1); !p.Asked {
		return nil
	}
	if p.From, err = timeOf(query.Get("from"), p.Zone); err != nil {
		return err
	}
	p.To, err = timeOf(query.Get("to"), p.Zone)
	return err
}

// preview reads which times the range has, and which of them have a row.
func (p *backfillPage) preview(ctx context.Context, tx workqueue.Tx, of schedulesOf) error {
	all, err := of.PreviewBackfill(ctx, tx, p.Name, p.From, p.To)
	for _, o := range all {
		p.Times = append(p.Times, backfillTime{o, o.Nominal.In(p.Zone).Format("Mon 2006-01-02 15:04:05 -07:00")})
		if !o.Duplicate {
			p.Missing++
		}
	}
	p.Sum = sumOf(all)
	return err
}

// sumOf is the same for the same occurrences with the same content, of which the same ones exist.
func sumOf(all []periodic.Occurrence) string {
	hash := sha256.New()
	for i, o := range all {
		if i == 0 { // all have the same
			fmt.Fprintf(hash, "%q", o.Template)
		}
		fmt.Fprintf(hash, " %s %t", o.ID, o.Duplicate)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// backfilled returns the tables of the navigation and the schedules of a table, if the user sees the rows that these
// write, and the role all of them.
func (r *request) backfilled(ctx context.Context, table string) (known []string, of schedulesOf, err error) {
	if _, known, err = r.tableNamed(ctx, table); err != nil {
		return nil, nil, err
	}
	if of, err = r.schedulesOf(table); err != nil {
		return nil, nil, err
	}
	t, _, err := r.tableNamed(ctx, rowsOf(table))
	if err != nil {
		return nil, nil, err
	}
	hidden, err := r.db().Hidden(ctx, []*workqueue.Table{t})
	if err == nil && len(hidden) > 0 {
		err = partlySeen
	}
	return known, of, err
}

// backfill writes the occurrences that were shown, and leads to the page that shows them again.
func backfill(ctx context.Context, r *request) (view, error) {
	table := r.field("table")
	_, of, err := r.backfilled(ctx, table)
	if err != nil {
		return view{}, err
	}
	about := operate.AboutSchedule{Schedule: r.form.Get("schedule")}
	var errs [2]error
	about.From, errs[0] = timeOf(r.field("from"), time.UTC)
	about.To, errs[1] = timeOf(r.field("to"), time.UTC)
	if err := cmp.Or(errs[0], errs[1]); err != nil {
		return view{}, err
	}
	act := operate.Act{Verb: "backfill", Target: table, About: about}
	to := "schedules/backfill" + string(query("table", table, "schedule", about.Schedule, "from", r.field("from"), "to",
		r.field("to"), "zone", r.field("zone")))
	v, err := r.rule(ctx, act, to, func(tx workqueue.Tx) (int, error) {
		// Nobody can change the schedule, or write its rows, between the comparison and the end of the transaction.
		name := pgx.Identifier{r.handler.Schema, table}.Sanitize()
		_, err := tx.Exec(ctx, "SELECT FROM "+name+" WHERE name = $1 FOR NO KEY UPDATE", about.Schedule)
		if err != nil {
			return 0, err
		}
		all, err := of.PreviewBackfill(ctx, tx, about.Schedule, about.From, about.To)
		if err != nil {
			return 0, err
		}
		if sumOf(all) != r.field("sum") {
			return 0, otherRows
		}
		return of.Backfill(ctx, tx, about.Schedule, about.From, about.To)
	})
	if postgres.State(err) == "42501" { // insufficient_privilege
		err = problem{status: http.StatusServiceUnavailable, Title: "The dashboard lacks a right",
			Detail: "The role of this dashboard may not write rows to " + rowsOf(table) + ". Nothing was changed.",
			rights: "worker"}
	}
	return v, err
}

var otherRows = problem{status: http.StatusConflict, Title: "It would write other rows now",
	Detail: "After they were shown, the schedule was changed, or some of them were written or deleted. Nothing was " +
		"changed.",
	Advice: "Preview the range again, and look at its rows."}
