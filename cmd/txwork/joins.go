package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/survey"
)

// joinStates are the states of joins, indexed by their number in the database.
var joinStates = []string{"pending", "completed", "failed", "cancelled"}

// A shownJoin is a fan-in of rows: a batch, a workflow's step, or one of messages.
type shownJoin struct {
	ID           string     `json:"id"`
	Label        string     `json:"label,omitempty"` // label given by the application
	Status       string     `json:"status"`          // pending, completed, failed or cancelled
	Expected     int32      `json:"expected"`        // number of members
	Succeeded    int32      `json:"succeeded"`       // members that have been counted as done
	Failed       int32      `json:"failed"`          // members that have been counted as failed
	CreatedAt    time.Time  `json:"created_at"`
	Deadline     *time.Time `json:"deadline,omitempty"`        // by which it ends in any case
	CompletedAt  *time.Time `json:"completed_at,omitempty"`    // when it ended
	Continuation *string    `json:"continuation,omitempty"`    // the row that starts when it ends
	WaitsFor     *string    `json:"waits_for,omitempty"`       // one of the members that have not ended
	State        string     `json:"waits_for_state,omitempty"` // state of that member
	Error        string     `json:"last_error,omitempty"`      // error of that member
}

// A joinsPage is what joins prints.
type joinsPage struct {
	Table   string      `json:"table"`             // with its schema
	Joins   []shownJoin `json:"joins"`             // the newest first
	Next    string      `json:"next,omitempty"`    // for --after; missing on the last page
	Partial bool        `json:"partial,omitempty"` // row-level security hides rows from the role, so there may be more
}

// A joinMembers is what joins prints of one join.
type joinMembers struct {
	Table string `json:"table"` // with its schema
	shownJoin
	Members []shownMember `json:"members"`           // those that have not been counted first, then those that failed
	Partial bool          `json:"partial,omitempty"` // row-level security hides rows from the role, so there may be more
}

// A shownMember is a row that a join waits for, or has counted.
type shownMember struct {
	ID      string `json:"id"`
	State   string `json:"state"`                // state of its row: ready, in_progress, done, gone and so on
	Counted string `json:"counted,omitempty"`    // succeeded or failed; missing while the join waits for it
	About   string `json:"about,omitempty"`      // topic or kind
	Error   string `json:"last_error,omitempty"` // error of its last failed attempt
}

func newShownJoin(j survey.Join) shownJoin {
	return shownJoin{j.ID, j.Label, joinStates[j.Status], j.Expected, j.Succeeded, j.Failed, j.CreatedAt.UTC(),
		utc(j.Deadline), utc(j.CompletedAt), j.Continuation, j.Member, j.State, j.Error}
}

func newJoinsCommand(a *app) *cobra.Command {
	var o joinsOptions
	cmd := newCommand("joins TABLE [ID]", "Show batches, workflows and other joins, and what they wait for",
		cobra.RangeArgs(1, 2))
	flags := cmd.Flags()
	flags.StringVar(&o.status, "status", joinStates[0], "joins in this state: "+strings.Join(joinStates, ", "))
	flags.StringVar(&o.label, "label", "", "only joins with this label")
	flags.StringVar(&o.after, "after", "", "continue after this `id`, the last of the previous page")
	flags.IntVar(&o.limit, "limit", defaultListLimit, "joins of a page, or members of a join")
	jsonVar(flags, &o.json, jsonUsage, joinsPage{}, joinMembers{})
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
	if !slices.Contains(joinStates, o.status) {
		return usagef("--status %q is unknown, want one of %s", o.status, strings.Join(joinStates, ", "))
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
		found, err := survey.Joins(ctx, r, f, cmp.Or(o.after, uuid.Max.String()),
			int16(slices.Index(joinStates, o.status)), o.label, o.limit+1, func(n int) { progress.set(int64(n)) })
		progress.end()
		if err != nil {
			return explain(err)
		}
		p := newJoinsPage(f.Schema+"."+f.Name, found, o.limit)
		p.Partial = f.Filtered
		if o.json {
			return a.printJSON(p)
		}
		return a.printJoins(p)
	})
}

// newJoinsPage shows at most limit of the joins. A further one only says that there is a next page.
func newJoinsPage(table string, found []survey.Join, limit int) joinsPage {
	p := joinsPage{Table: table, Joins: []shownJoin{}}
	for _, j := range found[:min(len(found), limit)] {
		p.Joins = append(p.Joins, newShownJoin(j))
	}
	if len(found) > limit {
		p.Next = p.Joins[limit-1].ID
	}
	return p
}

// showJoin shows one join with its members.
func (a *app) showJoin(ctx context.Context, table, id string, limit int, asJSON bool) error {
	if _, err := parseIDs([]string{id}); err != nil {
		return err
	}
	return a.withFacts(ctx, table, "joined", "joins", func(r survey.Reader, f *survey.Facts) error {
		found, members, err := survey.JoinMembers(ctx, r, f, id, limit)
		switch {
		case err != nil:
			return explain(err)
		case found == nil:
			return fmt.Errorf("%s.%s has no join %s", f.Schema, f.Name, id)
		}
		shown := joinMembers{Table: f.Schema + "." + f.Name, shownJoin: newShownJoin(*found), Members: []shownMember{},
			Partial: f.Filtered}
		for _, m := range members {
			shown.Members = append(shown.Members, shownMember{m.ID, m.State, m.Counted, m.Label, m.Error})
		}
		if asJSON {
			return a.printJSON(shown)
		}
		if err := a.printJoins(joinsPage{Joins: []shownJoin{shown.shownJoin}}); err != nil {
			return err
		}
		return a.printMembers(shown.Members)
	})
}

func (a *app) printMembers(all []shownMember) error {
	fmt.Fprintln(a.stdout)
	g := newGrid(a.stdout, "MEMBER", "STATE", "COUNTED AS", "ABOUT", "LAST ERROR")
	for _, m := range all {
		g.add(m.ID, m.State, dashed(m.Counted), namedOrDash(m.About), dashed(m.Error))
	}
	return g.flush()
}

func (a *app) printJoins(p joinsPage) error {
	now := time.Now()
	g := newGrid(a.stdout, "ID", "LABEL", "STATUS", "COUNTED", "FAILED", "CREATED", "WAITS FOR", "STATE", "LAST ERROR")
	for _, j := range p.Joins {
		g.add(j.ID, namedOrDash(j.Label), j.Status, fmt.Sprintf("%d/%d", j.Succeeded+j.Failed, j.Expected),
			fmt.Sprint(j.Failed), stamp(j.CreatedAt, now),
			textOrDash(j.WaitsFor), dashed(j.State), dashed(j.Error))
	}
	if err := g.flush(); err != nil || p.Next == "" {
		return err
	}
	return a.hintMore(p.Next)
}
