package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
)

func newAuditCommand(a *app) *cobra.Command {
	var f operate.AuditFilter
	var since age
	var action string
	var after string
	var limit int
	cmd := newCommand("audit [TABLE]", "Show what operators did", cobra.MaximumNArgs(1))
	flags := cmd.Flags()
	flags.Var(&since, "since", "only since this `long` ago, such as 36h or 7d")
	flags.StringVar(&f.Who, "who", "", "only what this person did")
	flags.StringVar(&f.Verb, "verb", "", "only this `verb`, such as redrive or pause")
	flags.StringVar(&action, "action", "", "only the action with this `id`")
	flags.StringVar(&after, "after", "", "continue after this `position`, the last of the previous page")
	flags.IntVar(&limit, "limit", defaultListLimit, "rows of a page")
	asJSON := jsonFlag(cmd, operate.AuditPage{})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := checkLimit(limit); err != nil {
			return err
		}
		if action != "" {
			if f.Action, err = uuid.Parse(action); err != nil {
				return usagef("--action %q is no id", action)
			}
		}
		var before int64
		if after != "" {
			if before, err = strconv.ParseInt(after, 10, 64); err != nil || before <= 0 {
				return usagef("--after %q is no position of the audit", after)
			}
		}
		return a.withDatabase(cmd.Context(), func(d *database) error {
			if since.Given {
				now, err := d.Now(cmd.Context())
				if err != nil {
					return err
				}
				f.Since = now.Add(-since.Duration)
			}
			if len(args) > 0 {
				f.Table = strings.TrimPrefix(args[0], d.Schema+".")
			}
			p, err := d.Audit(cmd.Context(), f, before, limit)
			if err != nil {
				return explain(err)
			}
			if *asJSON {
				return a.printJSON(p)
			}
			return a.printAudit(p)
		})
	}
	return cmd
}

func (a *app) printAudit(p *operate.AuditPage) error {
	g := newGrid(a.stdout, "WHEN", "WHO", "WHAT", "TABLE", "ROWS", "ABOUT", "FROM", "DATABASE USER")
	for _, r := range p.Rows {
		what := r.Verb
		if r.Event != "done" {
			what += " " + r.Event
		}
		g.add(r.At.Format("2006-01-02 15:04:05Z"), named(r.Who), cell(what, cellWidth), dashed(r.Table),
			strconv.Itoa(r.Rows), cell(string(r.About), 2*cellWidth), cell(r.Origin, cellWidth), named(r.User))
	}
	if err := g.flush(); err != nil {
		return err
	}
	if p.Searched > 0 {
		fmt.Fprintf(a.stderr, "txwork: %d rows were searched, back to %s\n", p.Searched,
			p.SearchedTo.UTC().Format("2006-01-02 15:04:05Z"))
	}
	if p.Partial {
		fmt.Fprintf(a.stderr, "txwork: row-level security hides rows of the audit from the role\n")
	}
	if p.Next == 0 {
		return nil
	}
	return a.hintMore(strconv.FormatInt(p.Next, 10))
}
