package doctor

import (
	"context"
	"fmt"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
)

// orderChecks look for rows that wait for other rows, behind a key or in a join.
var orderChecks = []check{
	{
		code: "blocked-key", severity: Critical,
		title: "an ordered key that is blocked by a dead letter, and by which",
		meaning: "No row of this key is processed until somebody redrives or skips the dead letter. Other keys are " +
			"not affected.",
		remedy: "fix the cause and `txwork redrive`, or give the message up: `txwork outbox unblock`",
		look:   inRowsOfEachTable(blockedKeys),
	},
	{
		code: "fold-behind", severity: Critical, fixes: true,
		title:   "notes about keys and joins that have not been folded",
		from:    rough(defaultThresholds.Fold),
		meaning: "Rows whose turn it is keep waiting and joins do not end, although nothing blocks them.",
		remedy:  "start a worker of the table, or run `txwork reap`",
		look:    inRowsOfEachTable(foldBehind),
	},
	{
		code: "stuck-join", severity: Critical, fixes: true,
		title:   "joins, batches and workflows that should have ended",
		from:    rough(defaultThresholds.Join),
		meaning: "The continuation of the join never starts.",
		remedy:  "run `txwork reap`, whose sweep recounts such joins",
		look:    inRowsOfEachTable(stuckJoins),
	},
}

func blockedKeys(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	list, err := survey.Blockers(ctx, x.reader(), &t.Facts, maxSample, maxShown)
	keys, unknown := int64(0), false
	for _, b := range list {
		keys, unknown = b.Keys, b.More
		more := ""
		if b.Behind >= maxSample {
			more = " or more"
		}
		f := Finding{
			Title: fmt.Sprintf("%s: key %q is blocked by dead letter %s: %s%s behind it, the oldest for %s", t.Name,
				bounded(b.Key), b.ID, plural(b.Behind, "row"), more, rough(seconds(b.Oldest))),
			Evidence: []Evidence{evidence("key", b.Key, "blocked_by", b.ID, t.labelName(), b.Label, "failed_seconds",
				seconds(b.Failed), "last_error", b.Error,
				"waiting_at_least", b.Behind, "oldest_seconds", seconds(b.Oldest))},
			Remedy: Remedy{
				Do: "Fix the cause and redrive the dead letter. Or skip it: the rows behind it then go on " +
					"without it.",
				Commands: []string{x.command("redrive", t.Name, b.ID)},
				SQL:      []string{t.redrive(b.ID)},
			},
		}
		switch t.Name {
		case "outbox":
			f.Remedy.Commands = append(f.Remedy.Commands, x.command("outbox", "unblock", b.ID))
		case postgres.LogTable + "_parked":
			f.Remedy.Commands = append(f.Remedy.Commands, x.command("outbox", "unblock", "--log", b.ID))
		}
		all = append(all, f)
	}
	return t.shown(all, keys, unknown, "blocked key"), err
}

// foldBehind looks twice: notes of a long transaction are old when they become visible, but are folded a moment later.
func foldBehind(ctx context.Context, x *examination, t *table) ([]Finding, error) {
	worst, err := x.oldestNote(ctx, t)
	if err != nil || worst == nil {
		return nil, err
	}
	if err := x.wait(ctx); err != nil {
		return nil, err
	}
	if worst, err = x.oldestNote(ctx, t); err != nil || worst == nil {
		return nil, err
	}
	return []Finding{{
		Title: fmt.Sprintf("%s: the oldest note in %s has waited for %s to be folded", t.Name, worst.Notes,
			rough(seconds(*worst.Age))),
		Evidence: []Evidence{evidence("notes", worst.Notes, "oldest_seconds", seconds(*worst.Age))},
		Remedy: Remedy{
			Do: "Fold by hand, and start a worker of the table. If one is running, its " +
				"log says why its folds fail.",
			Commands: []string{x.command("reap", "--no-purge", t.Name)},
			SQL:      []string{foldSQL(t)},
		},
		Fixable: true,
	}}, nil
}

// foldSQL folds until no note is due.
func foldSQL(t *table) string {
	return "CALL " + t.Q("_fold") + "();"
}

// oldestNote returns the table's oldest note if it has waited for longer than the threshold, otherwise nil.
func (x *examination) oldestNote(ctx context.Context, t *table) (*survey.Note, error) {
	n, err := survey.OldestNote(ctx, x.reader(), &t.Facts)
	if n == nil || seconds(*n.Age) <= x.Thresholds.Fold {
		return nil, err
	}
	return n, err
}

func stuckJoins(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	list, unseen, err := survey.StuckJoins(ctx, x.reader(), &t.Facts, x.Thresholds.Join, maxSample, maxSample)
	if unseen.More {
		x.skip(ctx, x.current.code, t.Name, upTo(maxSample, "joins that have been pending for "+
			rough(x.Thresholds.Join)))
	}
	if unseen.Part > 0 {
		x.skip(ctx, x.current.code, t.Name, gap{plural(unseen.Part, "join") + " with more open members than are looked " +
			"at: the rest of these was not looked at", "look when fewer are open"})
	}
	for _, j := range list {
		all = append(all, Finding{
			Title: fmt.Sprintf("%s: join %s has not ended after %s: %s", t.Name, j.ID, rough(seconds(j.Age)), j.Reason),
			Evidence: []Evidence{evidence("join", j.ID, "label", j.Label, "reason", j.Reason, "age_seconds",
				seconds(j.Age), "expected", j.Expected, "counted", j.Counted, "member", j.Member)},
			Remedy: Remedy{
				Do:       "Recount the join, as the sweep does.",
				Commands: []string{x.command("reap", "--no-purge", t.Name)},
				SQL: []string{
					fmt.Sprintf("SELECT %s(1000);", t.Q("_join_sweep")),
					foldSQL(t),
				},
			},
			Fixable: true,
		})
	}
	return t.shown(all, int64(len(all)), unseen != (survey.UnseenJoins{}), "stuck join"), err
}
