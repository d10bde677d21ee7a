package main

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
)

// payloadsFlag gives a command the flag --payloads.
func payloadsFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("payloads", false, "show payloads, too; those of a job are its args and its output")
}

func newShowCommand(a *app) *cobra.Command {
	cmd := newCommand("show TABLE ID", "Show everything about one row", cobra.ExactArgs(2))
	payload := payloadsFlag(cmd)
	asJSON := jsonFlag(cmd, shownRow{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := parseIDs(args[1:])
		if err != nil {
			return err
		}
		return a.showRow(cmd.Context(), args[0], ids[0], *payload, *asJSON)
	}
	return cmd
}

func (a *app) showRow(ctx context.Context, table string, id uuid.UUID, payload, asJSON bool) error {
	return a.withTable(ctx, table, func(d *database, t *workqueue.Table) error {
		r, err := d.show(ctx, t, id, payload)
		if err != nil {
			return explain(err)
		}
		if asJSON {
			return a.printJSON(r)
		}
		return a.printRow(r)
	})
}

func parseIDs(texts []string) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for _, text := range texts {
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, usagef("%q is no id: ids are UUIDs, 'txwork list' shows them", text)
		}
		if !slices.Contains(ids, id) { // a row that is named twice is changed once
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// A shownRow is what show prints.
type shownRow struct {
	Table string `json:"table"` // with its schema
	row
	OwnerToken *uuid.UUID `db:"owner_token" json:"owner_token,omitempty"` // token of the claim that holds the row, or held it last
	Headers    document   `db:"headers" json:"headers"`                   // by name, such as traceparent; what is no object is under the empty name
	Retry      *document  `db:"retry" json:"retry,omitempty"`             // the row's own backoff
	Held       *hold      `db:"-" json:"held,omitempty"`                  // what keeps it from starting: a pause of its queue or topic, or the rows of its topic that run
	Process    *holder    `db:"-" json:"process,omitempty"`               // in progress: the process that runs it, if that says that it runs
	Payloads   payloads   `db:"-" json:"payloads"`                        // by the name of the column

	now    time.Time
	layout layout
	domain string // name of the table
}

// payloads are keyed by column name. A NULL is left out.
type payloads map[string]payload

// A payload is the part of a payload that may be shown.
type payload struct {
	Bytes  int     `json:"bytes"`            // its size
	Text   *string `json:"text,omitempty"`   // with --payloads, if it is UTF-8
	Base64 []byte  `json:"base64,omitempty"` // with --payloads, if it is not
}

func (d *database) show(ctx context.Context, t *workqueue.Table, id uuid.UUID, withPayload bool) (*shownRow, error) {
	r := &shownRow{Table: t.Name(), Payloads: payloads{}, domain: t.Spec().Table}
	err := d.read(ctx, func(tx *sqlx.Tx) (err error) {
		if r.layout, err = readLayout(ctx, tx, t.Spec()); err != nil {
			return err
		}
		query := fmt.Sprintf("SELECT %s, r.owner_token, CASE WHEN r.headers IS NULL THEN '{}' "+
			"WHEN jsonb_typeof(r.headers) = 'object' THEN r.headers ELSE jsonb_build_object('', r.headers) END::text "+
			"AS headers, r.retry::text AS retry, %s AS columns FROM %s AS r WHERE r.id = $1",
			coreFields, r.layout.plainJSON(), r.layout.table)
		if err := tx.GetContext(ctx, r, query, id); err != nil {
			return err
		}
		if err := tx.GetContext(ctx, &r.now, "SELECT now()"); err != nil {
			return err
		}
		if r.Held, err = r.layout.held(ctx, tx, t.Spec(), id); err != nil {
			return err
		}
		return r.readPayloads(ctx, tx, withPayload)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%s has no row %s", t.Name(), id)
	}
	r.utc()
	if err == nil && r.Status == rowStatus(workqueue.InProgress) && r.OwnerToken != nil {
		token := r.OwnerToken.String()
		found, err := survey.Processes(ctx, survey.Reader{From: d.pool, Limit: listTimeout}, d.schema, token)
		if err != nil {
			return nil, err
		}
		r.Process = holderOf(found, token)
	}
	return r, err
}

func (r *shownRow) readPayloads(ctx context.Context, tx *sqlx.Tx, content bool) error {
	for _, c := range r.layout.payloads {
		bytes := "r." + c.quoted()
		if c.Type != "bytea" {
			bytes = fmt.Sprintf("convert_to(%s::text, 'UTF8')", bytes)
		}
		query := fmt.Sprintf("SELECT octet_length(%[1]s), CASE WHEN $2 THEN %[1]s END FROM %[2]s AS r WHERE r.id = $1",
			bytes, r.layout.table)
		var size *int
		var data []byte
		if err := tx.QueryRowxContext(ctx, query, r.ID, content).Scan(&size, &data); err != nil {
			return err
		}
		if size == nil {
			continue // NULL
		}
		p := payload{Bytes: *size}
		if content {
			p.fill(data)
		}
		r.Payloads[c.Name] = p
	}
	return nil
}

func (p *payload) fill(data []byte) {
	if utf8.Valid(data) {
		text := string(data)
		p.Text = &text
		return
	}
	p.Base64 = data
}

// printable formats a payload for a terminal: plain text as it is, anything else as a hex dump.
func (p payload) printable() (string, bool) {
	if p.Text == nil && p.Base64 == nil {
		return "", false
	}
	data := p.Base64
	if p.Text != nil {
		visible := strings.NewReplacer("\r\n", "", "\n", "", "\t", "").Replace(*p.Text)
		if strings.IndexFunc(visible, unprintable) < 0 {
			return *p.Text, true
		}
		data = []byte(*p.Text)
	}
	return strings.TrimSuffix(hex.Dump(data), "\n"), true
}

func (p payloads) summary(column string) string {
	one, ok := p[column]
	if !ok {
		return "-"
	}
	if _, shown := one.printable(); shown {
		return fmt.Sprintf("%d bytes, below", one.Bytes)
	}
	return fmt.Sprintf("%d bytes (--payloads shows them)", one.Bytes)
}

func (a *app) printRow(r *shownRow) error {
	g := newGrid(a.stdout)
	g.add("table", r.Table)
	g.add("id", r.ID.String())
	g.add("status", r.state())
	if r.Held != nil {
		g.add("held back", r.Held.text(r.now))
	}
	g.add("attempts", fmt.Sprintf("%d of %d", r.Attempts, r.MaxAttempts))
	g.add("due", stamp(r.DueAt, r.now))
	g.add("created", stamp(r.CreatedAt, r.now))
	g.add("lease ends", stampOrDash(r.LockedUntil, r.now))
	if r.Status == rowStatus(workqueue.InProgress) {
		g.add("running since", r.running())
	}
	g.add("owner token", idOrDash(r.OwnerToken))
	if r.Status == rowStatus(workqueue.InProgress) {
		g.add("process", r.Process.text())
	}
	if r.LostAlone+r.LostTogether > 0 {
		g.add("lost leases", r.lost())
	}
	g.add("completed", stampOrDash(r.CompletedAt, r.now))
	g.add("failed", stampOrDash(r.FailedAt, r.now))
	g.add("cancelled", stampOrDash(r.CancelledAt, r.now))
	g.add("headers", harmless(string(r.Headers)))
	if r.Retry != nil {
		g.add("own backoff", harmless(string(*r.Retry)))
	}
	for i, text := range r.cells(r.layout.plain) {
		if name := r.layout.plain[i].Name; text != "-" || !inner(r.domain, name) {
			g.add(harmless(name), harmless(text))
		}
	}
	for _, c := range r.layout.payloads {
		g.add(harmless(c.Name), r.Payloads.summary(c.Name))
	}
	if r.LastError == nil {
		g.add("last error", "-")
	}
	if err := g.flush(); err != nil {
		return err
	}
	return a.printBlocks(r)
}

// state names the status of the row, and says if a ready row is held back.
func (r *row) state() string {
	if r.Waiting {
		return r.Status.String() + ", waiting"
	}
	return r.Status.String()
}

// running says since when a row in progress runs, as far as that is known.
func (r *shownRow) running() string {
	if r.RunningFrom == nil {
		return "- (its lease has not been renewed yet)"
	}
	text := stamp(*r.RunningFrom, r.now)
	if r.RunsWithin != nil && r.now.Sub(*r.RunningFrom) > seconds(*r.RunsWithin) {
		text += fmt.Sprintf(", longer than the %s that it should", rough(seconds(*r.RunsWithin)))
	}
	return text
}

// lost says how many leases a row has lost, and what that means.
func (r *shownRow) lost() string {
	text := fmt.Sprintf("%d alone, %d together with other rows of its process", r.LostAlone, r.LostTogether)
	if r.LostAlone > 1 {
		text += ": it may end its process"
	}
	return text
}

func idOrDash(id *uuid.UUID) string {
	if id == nil {
		return "-"
	}
	return id.String()
}

// printBlocks prints the values that may have several lines.
func (a *app) printBlocks(r *shownRow) error {
	var b strings.Builder
	if r.LastError != nil {
		b.WriteString("last error:\n")
		for line := range strings.SplitSeq(*r.LastError, "\n") {
			b.WriteString("  " + harmless(strings.ReplaceAll(line, "\t", "    ")) + "\n")
		}
	}
	for _, c := range r.layout.payloads {
		if text, shown := r.Payloads[c.Name].printable(); shown {
			fmt.Fprintf(&b, "\n%s:\n%s\n", harmless(c.Name), text)
		}
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}
