package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/internal/survey"
)

// deadLetterChecks look for rows that have failed, or are about to.
var deadLetterChecks = []check{
	{
		code: "unknown-handler", severity: Critical,
		title:   "rows of a topic or kind that no worker has a handler for",
		from:    "retried now, left to other workers for " + rough(defaultThresholds.Unserved) + ", or failed within an hour",
		meaning: "Their attempts are used up one by one, then they become dead letters. What workers leave to others waits.",
		remedy:  "deploy a worker with the handler, then redrive what has already failed",
		look:    inRowsOfEachTable(unknownHandlers),
	},
	{
		code: "poison", severity: Warning,
		title:   "many dead letters of one kind with the same error",
		from:    fmt.Sprintf("%d within an hour", defaultThresholds.Poison),
		meaning: "The handler, or something it calls, keeps failing. The work is not done until somebody redrives it.",
		remedy:  "fix the cause, then `txwork redrive`",
		look:    inRowsOfEachTable(poison),
	},
}

// letters are rows of one kind with one error that are dead letters or may become dead letters.
type letters struct {
	Subscription string // of parked messages; empty for other rows
	Label, Error string
	Rows         int64
	Failed       int64
	IDs          []string
	Latest       float64
}

// of names the subscription of letters of a table.
func (l *letters) of(t *table) string {
	if l.Subscription == "" {
		return t.Name
	}
	return fmt.Sprintf("%s, subscription %s", t.Name, l.Subscription)
}

// evidence begins that of a finding about the letters.
func (l *letters) evidence(label string) Evidence {
	if l.Subscription == "" {
		return evidence(label, l.Label)
	}
	return evidence("subscription", l.Subscription, label, l.Label)
}

// deadLettersOf is how far back dead letters are examined.
const deadLettersOf = time.Hour

// suspects are the rows of a table that checks for errors look for, and whether there may be more. Rows that are not
// due yet do not count for that: they do no harm meanwhile, and are read when few are before them.
type suspects struct {
	Deadly            []deadly
	Unhandled         []unhandled
	MoreDue, MoreDead bool
	err               error
}

// readSuspects reads the rows of a table for all checks that look for errors, once, and tells whether there may be
// more: live ones, unless only dead letters are meant, and the latest dead letters. What was not looked at is said.
func (x *examination) readSuspects(ctx context.Context, t *table, live bool) (found suspects, more bool, err error) {
	if _, err := x.readHeads(ctx, t); err != nil { // which says if there are more lanes than are looked at
		return suspects{}, false, err
	}
	if t.suspects == nil {
		far := *t
		far.HeadRows = maxErrors
		t.suspects = &suspects{}
		t.suspects.err = x.read(ctx, func(tx pgx.Tx) error {
			s := t.suspects
			row := tx.QueryRow(ctx, sqltext.Statement(templates, "suspects", &far), deadlyFrom, deadLettersOf.Seconds(),
				maxSample, maxSample, x.Thresholds.Unserved.Seconds())
			return row.Scan(&s.Deadly, &s.Unhandled, &s.MoreDue, &s.MoreDead)
		})
	}
	found = *t.suspects
	if found.err != nil {
		return suspects{}, false, found.err
	}
	if live && found.MoreDue {
		more = true
		x.skip(ctx, x.current.code, t.Name, gap{fmt.Sprintf("more than %d rows are due: the rest was not looked at",
			maxErrors), "start workers, or look when there are fewer"})
	}
	if found.MoreDead {
		more = true
		x.skip(ctx, x.current.code, t.Name, gap{fmt.Sprintf("more than %d rows have failed within %s: only the latest "+
			"were looked at", maxSample, rough(deadLettersOf)), "mend those that are found, and look again"})
	}
	return found, more, nil
}

// An unhandled group is rows of one kind that found no handler.
type unhandled struct {
	letters
	Left  int64  // rows that are left to other workers, which costs them no attempt
	Since string // since when the first of them has been left
}

func unknownHandlers(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	if t.LabelName() == "" {
		return nil, nil
	}
	found, more, err := x.readSuspects(ctx, t, true)
	for _, l := range found.Unhandled {
		state, remedy := x.unhandled(t, l)
		e := append(l.evidence(t.LabelName()), evidence("rows", l.Rows, "failed", l.Failed)...)
		if l.Left > 0 {
			e = append(e, evidence("left", l.Left, "left_seconds", x.leftFor(l))...)
		}
		all = append(all, Finding{
			Title:    fmt.Sprintf("%s: no handler is registered for %s %q: %s", l.of(t), t.LabelName(), l.Label, state),
			Evidence: []Evidence{append(e, evidence("ids", l.IDs, "last_error", l.Error)...)},
			Remedy:   remedy,
		})
	}
	return t.shown(all, int64(len(all)), more, "unhandled "+t.LabelName()), err
}

// leftFor is for how long the first of the rows has been left to other workers.
func (x *examination) leftFor(l unhandled) time.Duration {
	since, err := time.Parse(time.RFC3339, l.Since)
	if err != nil {
		return 0
	}
	return max(x.report.At.Sub(since), 0)
}

// unhandled describes the state of rows that found no handler, and what to do about them.
func (x *examination) unhandled(t *table, l unhandled) (state string, r Remedy) {
	const deploy = "Deploy a worker that has the handler."
	const retried = " What is being retried is then done at its next attempt"
	retrying := l.Rows - l.Failed
	switch {
	case l.Failed == 0 && l.Left == retrying:
		return fmt.Sprintf("%s left to workers that have one, for up to %s", plural(retrying, "row"),
			rough(x.leftFor(l))), Remedy{Do: deploy + retried + ". Until then each is put back, again and again."}
	case l.Failed == 0:
		return plural(retrying, "row") + " being retried", Remedy{
			Do: deploy + retried + "; nothing has failed that could be redriven."}
	}
	state, r.Do = plural(l.Failed, "row")+" failed within an hour", deploy
	if retrying > 0 {
		state = plural(retrying, "row") + " being retried, " + state
		r.Do += retried + "."
	}
	r.Do += " Redrive what has failed:"
	lacking := []string{"--error", postgres.Shell("no handler is registered for")}
	r.Commands = []string{x.command(t.redrives(l.letters, lacking...)...)}
	return state, r
}

func poison(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	if t.Name == timersOfAlarms { // alarm-failed names those of alarms
		a, err := x.findAlarms(ctx)
		if err != nil {
			return nil, err
		}
		t.FiresAlarms = a != nil
	}
	_, more, err := x.readSuspects(ctx, t, false)
	if err != nil {
		return nil, err
	}
	list, err := readRows[letters](ctx, x, "poison", t, deadLettersOf.Seconds(), maxSample, x.Thresholds.Poison,
		maxSample, deadlyFrom)
	for _, l := range list {
		all = append(all, x.poisonFinding(t, l))
	}
	return t.shown(all, int64(len(all)), more, "dead-letter kind"), err
}

func (x *examination) poisonFinding(t *table, l letters) Finding {
	what := l.of(t)
	if l.Label != "" {
		what += fmt.Sprintf(": %s %q", t.LabelName(), l.Label)
	}
	redrive, about := []string{"--newer-than", "1h"}, t.about(l)
	if part := survey.Literal(l.Error); part != "" {
		redrive = append(redrive, "--error", postgres.Shell(part))
		about += fmt.Sprintf(" AND strpos(last_error, %s) > 0", postgres.Literal(part))
	}
	do := "Look at one of them, fix the cause, then redrive them."
	if strings.HasPrefix(l.Error, lostLease) {
		do = "No handler reported these failures: the process of each ended, or was frozen or cut off from the database, in " +
			"the last attempt. Look at one of them and at why its processes ended, fix the cause, then redrive them."
	}
	return Finding{
		Title: fmt.Sprintf("%s: %s within an hour: %s", what, plural(l.Rows, "dead letter"), bounded(l.Error)),
		Evidence: []Evidence{append(l.evidence(t.labelName()), evidence("rows", l.Rows, "error", l.Error, "ids", l.IDs,
			"latest_seconds", seconds(l.Latest))...)},
		Remedy: Remedy{
			Do:       do,
			Commands: []string{x.command("show", t.Name, l.IDs[0]), x.command(t.redrives(l, redrive...)...)},
			SQL: []string{fmt.Sprintf("SELECT * FROM %s(ARRAY(SELECT id FROM %s WHERE failed_at > now() - "+
				"interval '1 hour' AND cancelled_at IS NULL%s LIMIT 1000));", t.Q("_redrive"), t.Table(), about)},
		},
	}
}

// lostLease begins the error of a row whose lease expired, as the reaper writes it.
const lostLease = "lease expired at "

// about returns an SQL condition that selects rows of the letters' subscription, and of their kind or topic.
func (t *table) about(l letters) (condition string) {
	if l.Subscription != "" {
		condition = " AND subscription = " + postgres.Literal(l.Subscription)
	}
	if name := t.LabelName(); name != "" && l.Label != "" {
		condition += " AND " + pgx.Identifier{name}.Sanitize() + " = " + postgres.Literal(l.Label)
	}
	return condition
}

// redrives returns the command that redrives dead letters of a subscription, and of a kind or topic.
func (t *table) redrives(l letters, which ...string) []string {
	args := append([]string{"redrive", t.Name}, which...)
	if l.Subscription != "" {
		args = append(args, "--subscription", postgres.Shell(l.Subscription))
	}
	if name := t.LabelName(); name != "" && l.Label != "" {
		args = append(args, "--"+name, postgres.Shell(l.Label))
	}
	return args
}
