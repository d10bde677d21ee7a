package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/survey"
)

func newJoinsCommand(a *app) *cobra.Command {
	var o joinsOptions
	cmd := newCommand("joins TABLE [ID]", "Show batches, workflows and other joins, and what they wait for",
		cobra.RangeArgs(1, 2))
	flags := cmd.Flags()
	flags.StringVar(&o.status, "status", operate.JoinStates[0],
		"joins in this state: "+strings.Join(operate.JoinStates, ", "))
	flags.StringVar(&o.label, "label", "", "only joins with this label")
	flags.StringVar(&o.after, "after", "", "continue after this `id`, the last of the previous page")
	flags.IntVar(&o.limit, "limit", defaultListLimit, "joins of a page, or members of a join")
	jsonVar(flags, &o.json, jsonUsage, operate.Joins{}, operate.JoinMembers{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		if len(args) == 1 {
			return a.listJoins(cmd.Context(), args[0], o)
		}
		if flags.Changed("status") || flags.Changed("label") || flags.Changed("after") {
			return usagef("--status, --label and --after are for all joins, without an ID")
		}
		return a.showJoin(cmd.Context(), args[0], args[1], o.limit, o.json)
	}
	return cmd
}

// joinsOptions are the flags of joins.
type joinsOptions struct {
	status, label, after string
	limit                int
	json                 bool
}

func (o joinsOptions) check() error {
	if !slices.Contains(operate.JoinStates, o.status) {
		return usagef("--status %q is unknown, want one of %s", o.status, strings.Join(operate.JoinStates, ", "))
	}
	if err := checkLimit(o.limit); err != nil {
		return err
	}
	if _, err := uuid.Parse(o.after); o.after != "" && err != nil {
		return usagef("--after %q is no id: take it from the page before", o.after)
	}
	return nil
}

// listJoins shows a page of the joins of a table.
func (a *app) listJoins(ctx context.Context, table string, o joinsOptions) error {
	return a.withFacts(ctx, table, "joined", "joins", func(r survey.Reader, f *survey.Facts) error {
		progress := a.newTally("looking", "joins", -1)
		defer progress.end()
		p, err := operate.ReadJoins(ctx, r, f, operate.JoinOptions{Status: o.status, Label: o.label, After: o.after,
			Limit: o.limit, Search: survey.WholeJoinSearch}, func(n int) { progress.set(int64(n)) })
		progress.end()
		if err != nil {
			return explain(err)
		}
		if o.json {
			return a.printJSON(p)
		}
		return a.printJoins(p)
	})
}

// showJoin shows one join with its members.
func (a *app) showJoin(ctx context.Context, table, id string, limit int, asJSON bool) error {
	if _, err := parseIDs([]string{id}); err != nil {
		return err
	}
	return a.withFacts(ctx, table, "joined", "joins", func(r survey.Reader, f *survey.Facts) error {
		shown, err := operate.ReadJoin(ctx, r, f, id, limit)
		switch {
		case err != nil:
			return explain(err)
		case shown == nil:
			return fmt.Errorf("%s.%s has no join %s", f.Schema, f.Name, id)
		}
		if asJSON {
			return a.printJSON(shown)
		}
		if err := a.printJoins(operate.Joins{Joins: []operate.Join{shown.Join}}); err != nil {
			return err
		}
		return a.printMembers(shown.Members)
	})
}

func (a *app) printMembers(all []operate.Member) error {
	fmt.Fprintln(a.stdout)
	g := newGrid(a.stdout, "MEMBER", "STATE", "COUNTED AS", "ABOUT", "LAST ERROR")
	for _, m := range all {
		g.add(m.ID, m.State, dashed(m.Counted), namedOrDash(m.About), dashed(m.Error))
	}
	return g.flush()
}

func (a *app) printJoins(p operate.Joins) error {
	now := time.Now()
	g := newGrid(a.stdout, "ID", "LABEL", "STATUS", "COUNTED", "FAILED", "CREATED", "WAITS FOR", "STATE", "LAST ERROR")
	for _, j := range p.Joins {
		g.add(j.ID, namedOrDash(j.Label), j.Status, fmt.Sprintf("%d/%d", j.Counted(), j.Expected),
			fmt.Sprint(j.Failed), stamp(j.CreatedAt, now),
			textOrDash(j.WaitsFor), dashed(j.State), dashed(j.Error))
	}
	if err := g.flush(); err != nil || p.Next == "" {
		return err
	}
	return a.hintMore(p.Next)
}
