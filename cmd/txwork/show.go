package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// payloadsFlag gives a command the flag --payloads.
func payloadsFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("payloads", false, "show payloads, too; those of a job are its args and its output")
}

// payloadBytes is how many bytes of a payload are read.
func payloadBytes(payloads bool) int32 {
	if payloads {
		return operate.WholePayload
	}
	return 0
}

func newShowCommand(a *app) *cobra.Command {
	cmd := newCommand("show TABLE ID", "Show everything about one row", cobra.ExactArgs(2))
	payload := payloadsFlag(cmd)
	asJSON := jsonFlag(cmd, operate.Shown{}, operate.LogMessage{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := parseIDs(args[1:])
		if err != nil {
			return err
		}
		show := a.showRow
		if isLog(a.schema, args[0]) {
			show = a.showMessage
		}
		return show(cmd.Context(), args[0], ids[0], *payload, *asJSON)
	}
	return cmd
}

func (a *app) showRow(ctx context.Context, table string, id uuid.UUID, payload, asJSON bool) error {
	return a.withTable(ctx, table, func(d *database, t *workqueue.Table) error {
		r, err := d.Show(ctx, t, id, payloadBytes(payload), nil)
		if errors.As(err, new(operate.GoneError)) && t.Spec().Table == postgres.LogTable+"_parked" {
			err = fmt.Errorf("%w: the id of a message is looked up by `%s`", err,
				a.command("show", postgres.LogTable, id.String()))
		}
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

// printable formats a payload for a terminal: plain text as it is, anything else as a hex dump.
func printable(p operate.Payload) (string, bool) {
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

func summary(p operate.Payloads, column string) string {
	one, ok := p[column]
	if !ok {
		return "-"
	}
	if _, shown := printable(one); shown {
		return fmt.Sprintf("%d bytes, below", one.Bytes)
	}
	return fmt.Sprintf("%d bytes (--payloads shows them)", one.Bytes)
}

func (a *app) printRow(r *operate.Shown) error {
	g := newGrid(a.stdout)
	g.add("table", r.Table)
	g.add("id", r.ID.String())
	g.add("status", stateText(&r.Row))
	if r.Held != nil {
		g.add("held back", heldText(r.Held, r.Now))
	}
	g.add("attempts", fmt.Sprintf("%d of %d", r.Attempts, r.MaxAttempts))
	g.add("due", stamp(r.DueAt, r.Now))
	g.add("created", stamp(r.CreatedAt, r.Now))
	g.add("lease ends", stampOrDash(r.LockedUntil, r.Now))
	if r.Status == operate.RowStatus(workqueue.InProgress) {
		g.add("running since", runningText(r))
	}
	g.add("owner token", idOrDash(r.OwnerToken))
	if r.Status == operate.RowStatus(workqueue.InProgress) {
		g.add("process", holderText(r.Process))
	}
	if r.LostAlone+r.LostTogether > 0 {
		g.add("lost leases", lostText(&r.Row))
	}
	g.add("completed", stampOrDash(r.CompletedAt, r.Now))
	g.add("failed", stampOrDash(r.FailedAt, r.Now))
	g.add("cancelled", stampOrDash(r.CancelledAt, r.Now))
	g.add("headers", harmless(string(r.Headers)))
	if r.Retry != nil {
		g.add("own backoff", harmless(string(*r.Retry)))
	}
	for i, text := range cellsOf(&r.Row, r.Layout.Plain) {
		if name := r.Layout.Plain[i].Name; text != "-" || !operate.Rare(r.Domain, name) {
			g.add(harmless(name), harmless(text))
		}
	}
	for _, c := range r.Layout.Payloads {
		g.add(harmless(c.Name), summary(r.Payloads, c.Name))
	}
	if r.LastError == nil {
		g.add("last error", "-")
	}
	if err := g.flush(); err != nil {
		return err
	}
	return a.printBlocks(r)
}

// stateText names the status of a row, and says if a ready row is held back.
func stateText(r *operate.Row) string {
	if r.Waiting {
		return r.Status.String() + ", waiting"
	}
	return r.Status.String()
}

// runningText says since when a row in progress runs, as far as that is known.
func runningText(r *operate.Shown) string {
	if r.RunningFrom == nil {
		return "- (its lease has not been renewed yet)"
	}
	text := stamp(*r.RunningFrom, r.Now)
	if r.RunsWithin != nil && r.Now.Sub(*r.RunningFrom) > seconds(*r.RunsWithin) {
		text += fmt.Sprintf(", longer than the %s that it should", rough(seconds(*r.RunsWithin)))
	}
	return text
}

// lostText says how many leases a row has lost, and what that means.
func lostText(r *operate.Row) string {
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
func (a *app) printBlocks(r *operate.Shown) error {
	var b strings.Builder
	if r.LastError != nil {
		b.WriteString("last error:\n")
		for line := range strings.SplitSeq(*r.LastError, "\n") {
			b.WriteString("  " + harmless(strings.ReplaceAll(line, "\t", "    ")) + "\n")
		}
	}
	for _, c := range r.Layout.Payloads {
		if text, shown := printable(r.Payloads[c.Name]); shown {
			fmt.Fprintf(&b, "\n%s:\n%s\n", harmless(c.Name), text)
		}
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}
