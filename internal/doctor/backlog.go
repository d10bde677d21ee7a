package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
)

// backlogChecks look for ready rows that are not claimed.
var backlogChecks = []check{
	{
		code: "unserved", severity: Critical,
		title:   "ready rows that no worker claims: nothing serves the table, the queue, this priority of it, or the consumer",
		from:    rough(defaultThresholds.Unserved),
		meaning: "The work does not start.",
		remedy:  "start a worker for it, or fix its deployment",
		look:    inRowsOfEachTable(unserved),
	},
	{
		code: "backlog", severity: Warning,
		title:   "ready rows that wait although workers are claiming, with the estimated time to drain",
		from:    rough(defaultThresholds.Backlog) + "; critical from " + rough(12*defaultThresholds.Backlog),
		meaning: "Work starts late, and later and later while more rows arrive than end.",
		remedy:  "more processes or a higher concurrency; make the slowest handlers faster",
		look:    inRowsOfEachTable(backlog),
	},
	{
		code: "queue-paused", severity: Warning,
		title:   "a paused queue with jobs that wait",
		from:    rough(defaultThresholds.Backlog),
		meaning: "The queue's jobs do not run until somebody resumes it.",
		remedy:  "`txwork jobs resume QUEUE`",
		look:    inRowsOfEachTable(pausedQueues),
	},
	{
		code: "queue-saturated", severity: Warning,
		title:   "a queue whose limit or rate keeps its jobs waiting",
		from:    rough(defaultThresholds.Backlog),
		meaning: "The jobs wait for the limit even while workers are idle.",
		remedy:  "raise it with `txwork jobs limit QUEUE`, if what it protects allows that",
		look:    inRowsOfEachTable(saturatedQueues),
	},
	{
		code: "topic-paused", severity: Warning,
		title:   "a paused topic with rows that wait",
		from:    rough(defaultThresholds.Backlog),
		meaning: "The topic's rows do not run until somebody resumes it.",
		remedy:  "`txwork outbox resume TOPIC` or `txwork inbox resume CONSUMER TOPIC`",
		look:    inRowsOfEachTable(pausedTopics),
	},
	{
		code: "topic-unavailable", severity: Warning,
		title:   "a topic whose destination is unavailable, with rows that wait",
		from:    rough(defaultThresholds.Backlog),
		meaning: "Its rows wait until the destination can be reached. They use up no attempts.",
		remedy:  "bring the destination back; the topic then goes on by itself",
		look:    inRowsOfEachTable(unavailableTopics),
	},
	{
		code: "topic-behind", severity: Warning,
		title:   "a topic whose rows are set aside although it is neither paused nor unavailable",
		from:    rough(defaultThresholds.Backlog),
		meaning: "Its rows start late: the workers have no places for more of them, or none runs.",
		remedy:  "find out what its handlers wait for; give them a shorter timeout or the workers more places",
		look:    inRowsOfEachTable(topicsBehind),
	},
	{
		code: "schedule-overdue", severity: Critical,
		title:   "schedules that should have fired",
		from:    rough(defaultThresholds.Schedule),
		meaning: "What they start, such as reports, does not happen.",
		remedy: "start a worker that runs the table's schedules: `timers.Worker` for those of timers, `jobs.Worker` for " +
			"those of jobs, or `txwork worker` with that section",
		look: inRowsOfEachTable(overdueSchedules),
	},
	{
		code: "schedule-failing", severity: Critical,
		title:   "schedules whose occurrences cannot be written: every attempt fails",
		from:    rough(defaultThresholds.Schedule),
		meaning: "What they start, such as reports, does not happen. They are retried at least every minute, for ever.",
		remedy:  "fix the cause that `last_error` names; put the schedule again if its template or its zone is wrong",
		look:    inRowsOfEachTable(failingSchedules),
	},
	{
		code: "schedule-dead", severity: Critical,
		title:   "schedules that are dead letters",
		meaning: "They no longer fire.",
		remedy:  "fix the cause and redrive the schedule",
		look:    inRowsOfEachTable(deadSchedules),
	},
}

// queueRules returns the rules of the table's queues, by name. They are read once.
func (x *examination) queueRules(ctx context.Context, t *table) (map[string]survey.QueueRule, error) {
	if t.rules != nil {
		return t.rules, nil
	}
	list, err := survey.QueueRules(ctx, x.reader(), &t.Facts, maxSample)
	rules := make(map[string]survey.QueueRule, len(list))
	for _, q := range list {
		rules[q.Name] = q
	}
	if err == nil {
		t.rules = rules
	}
	return rules, err
}

// A waiting lane is one whose first ready row has waited for longer than a threshold.
type waiting struct {
	survey.Head
	rule survey.QueueRule
	idle []string // lanes of it in which nothing starts, though workers may serve them
}

func (w waiting) oldest() time.Duration { return seconds(w.OldestReady) }

// over tells whether the first ready row of a lane has waited for longer than a threshold.
func over(h survey.Head, than time.Duration) bool {
	return h.Ready > 0 && seconds(h.OldestReady) > than
}

// laneHeads returns the heads of a table's lanes, and the rules of its queues.
func (x *examination) laneHeads(ctx context.Context, t *table) ([]survey.Head, map[string]survey.QueueRule, error) {
	if t.Schedule() {
		return nil, nil, nil // schedules have checks of their own
	}
	heads, err := x.readHeads(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	rules, err := x.queueRules(ctx, t)
	return heads, rules, err
}

// waitingLanes returns the lanes, by their first column, whose first ready row has waited for longer than a threshold.
func (x *examination) waitingLanes(ctx context.Context, t *table, than time.Duration) (all []waiting, err error) {
	heads, rules, err := x.laneHeads(ctx, t)
	for _, h := range survey.ByFirst(heads) {
		if over(h, than) {
			all = append(all, waiting{Head: h, rule: rules[h.Name()]})
		}
	}
	return all, err
}

func unserved(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	lanes, _, err := x.judged(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, w := range lanes {
		if !over(w.Head, x.Thresholds.Unserved) {
			continue
		}
		all = append(all, Finding{
			Title: fmt.Sprintf("%s: %s and no worker claims them: the oldest has been ready for %s", t.of(w.Head),
				t.ready(w.Head), rough(w.oldest())),
			Evidence: []Evidence{t.laneEvidence(w)},
			Remedy: Remedy{
				Do:       "Start a worker for it. If one is running, its log says why it does not claim.",
				Commands: []string{x.command(t.listing(w, "ready")...)},
			},
		})
	}
	return all, nil
}

// listing are the arguments that list rows of a lane.
func (t *table) listing(w waiting, status string) []string {
	args := []string{"list", t.Name, "--status", status}
	if len(t.LaneNames) > 0 && (t.LaneNames[0] == "queue" || t.LaneNames[0] == "subscription") {
		args = append(args, "--"+t.LaneNames[0], postgres.Shell(w.Name()))
	}
	return args
}

// ready describes how many rows are ready.
func (t *table) ready(h survey.Head) string {
	n := plural(h.Ready, "ready row")
	switch {
	case h.More && float64(h.Seen) < t.Live:
		return fmt.Sprintf("at least %s (about %.0f live rows in the table)", n, t.Live)
	case h.More:
		return "at least " + n
	}
	return n
}

func (t *table) laneEvidence(w waiting) Evidence {
	e := evidence("ready_at_least", w.Ready, totalName("in_progress", w.More), w.Running, "oldest_seconds", w.oldest(),
		"longest_running_seconds", seconds(w.Longest), "live_estimate", int64(max(t.Live, float64(w.Seen))))
	var lane Evidence
	for i, value := range w.Lane {
		lane = append(lane, evidence(t.LaneNames[i], value)...)
	}
	return append(lane, e...)
}

func backlog(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	_, lanes, err := x.judged(ctx, t)
	lanes = slices.DeleteFunc(lanes, func(w waiting) bool { return !over(w.Head, x.Thresholds.Backlog) })
	if err != nil || len(lanes) == 0 {
		return nil, err
	}
	r, err := x.readRates(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, w := range lanes {
		all = append(all, x.backlogFinding(t, w, r))
	}
	return all, nil
}

func (x *examination) backlogFinding(t *table, w waiting, r survey.Rates) Finding {
	f := Finding{
		Title: fmt.Sprintf("%s: %s, the oldest for %s; %s", t.of(w.Head), t.ready(w.Head), rough(w.oldest()),
			t.drain(w, r)),
		Evidence: []Evidence{append(t.laneEvidence(w), evidence(totalName("arrived_per_minute", r.MoreArrived),
			r.Arrived, totalName("ended_per_minute", r.MoreEnded), r.Ended)...)},
		Remedy: Remedy{
			Do:       t.makeRoom(w, "Run more processes or raise the concurrency of the workers. These show what is slow:"),
			Commands: []string{x.command("list", t.Name, "--status", "in_progress"), x.command("stats", t.Name)},
		},
	}
	if len(w.idle) > 0 {
		f.Remedy = Remedy{Do: fmt.Sprintf("Nothing of %s has started in the last %s: if no worker serves it, start one. %s",
			strings.Join(w.idle, " and of "), rough(x.Thresholds.Unserved), f.Remedy.Do), Commands: f.Remedy.Commands}
	}
	if w.oldest() > 12*x.Thresholds.Backlog {
		f.Severity = Critical
	}
	return f
}

// makeRoom says what to do about rows that wait for a place. More places are no remedy if rows that do not return hold
// those that there are: they would hold the new ones, too.
func (t *table) makeRoom(w waiting, otherwise string) string {
	held := max(w.Running-w.Expired, 1)
	switch {
	case w.Overdue > 0:
		return fmt.Sprintf("%d of %s in progress %s for longer than %s should and %s the places of others: end what "+
			"not-returning names first. More places would be held in the same way. These show the rest:", w.Overdue,
			plural(held, "row"), verb(w.Overdue, "runs", "run"), they(w.Overdue), verb(w.Overdue, "holds", "hold"))
	case 2*w.Long >= held && w.Long > 0:
		return fmt.Sprintf("%d of %s in progress %s for longer than %s and %s the places of others. Find out whether "+
			"they get on: if their handlers hang, more places would be held in the same way. If they take so long, run more "+
			"processes or raise the concurrency of the workers. These show since when each runs:", w.Long,
			plural(held, "row"), verb(w.Long, "has run", "have run"), rough(t.long), verb(w.Long, "holds", "hold"))
	}
	return otherwise
}

func verb(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// drain estimates when the backlog will be gone, from the rates of the last minute.
func (t *table) drain(w waiting, r survey.Rates) string {
	if t.Deletes {
		return "the rate is unknown, since rows are deleted when they are done"
	}
	if r.Ended == 0 {
		return "nothing has ended in the last minute"
	}
	if r.MoreArrived && r.MoreEnded {
		return fmt.Sprintf("at least %d rows arrived in the last minute, and as many ended", r.Arrived)
	}
	gain := float64(r.Ended-r.Arrived) / ratesOver.Seconds()
	if gain <= 0 {
		return fmt.Sprintf("growing: %s arrived in the last minute, %d ended", counted(r.Arrived, r.MoreArrived,
			"row"), r.Ended)
	}
	depth := max(float64(w.Ready), t.Live)
	ended := fmt.Sprint(r.Ended)
	if r.MoreEnded {
		ended = "at least " + ended
	}
	return fmt.Sprintf("drained in about %s at the present rate: %s arrived in the last minute, %s ended",
		rough(seconds(depth/gain)), plural(r.Arrived, "row"), ended)
}

func pausedQueues(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	lanes, err := x.waitingLanes(ctx, t, x.Thresholds.Backlog)
	for _, w := range lanes {
		if !w.rule.Paused {
			continue
		}
		all = append(all, Finding{
			Title: fmt.Sprintf("%s: the queue is paused; %s, the oldest for %s", t.of(w.Head), t.ready(w.Head),
				rough(w.oldest())),
			Evidence: []Evidence{append(t.laneEvidence(w), evidence("changed_seconds", seconds(w.rule.Changed))...)},
			Remedy: Remedy{
				Do:       "Resume the queue once the reason for the pause is gone.",
				Commands: []string{x.command("jobs", "resume", postgres.Shell(w.Name()))},
				SQL: []string{fmt.Sprintf("UPDATE %s SET paused = false, changed_at = clock_timestamp() WHERE "+
					"name = %s;", t.Q("_queue"), postgres.Literal(w.Name()))},
			},
		})
	}
	return all, err
}

func saturatedQueues(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	lanes, err := x.waitingLanes(ctx, t, x.Thresholds.Backlog)
	for _, w := range lanes {
		if w.rule.Paused || !w.rule.Saturated() {
			continue
		}
		limit, args := "", []string{"jobs", "limit", postgres.Shell(w.Name())}
		e := append(t.laneEvidence(w), evidence("running", w.rule.Running)...)
		if w.rule.MaxRunning != nil {
			limit = fmt.Sprintf("%d of at most %d are running", w.rule.Running, *w.rule.MaxRunning)
			args = append(args, "--max-running", fmt.Sprint(2**w.rule.MaxRunning))
			e = append(e, evidence("max_running", *w.rule.MaxRunning)...)
		}
		if w.rule.Rate != nil {
			limit = strings.TrimPrefix(limit+fmt.Sprintf(", at most %v start a second", *w.rule.Rate), ", ")
			args = append(args, "--rate", fmt.Sprint(2**w.rule.Rate))
			e = append(e, evidence("rate", *w.rule.Rate)...)
		}
		all = append(all, Finding{
			Title: fmt.Sprintf("%s: %s held back by the queue's limit, the oldest for %s: %s", t.of(w.Head),
				t.ready(w.Head), rough(w.oldest()), limit),
			Evidence: []Evidence{e},
			Remedy:   x.raise(t, w, args),
		})
	}
	return all, err
}

// raise is the remedy of a queue that is at its limit, which these arguments raise, unless rows that do not return are
// what holds it.
func (x *examination) raise(t *table, w waiting, args []string) Remedy {
	const raise = "Raise the limit, if what it protects allows that."
	r := Remedy{Do: t.makeRoom(w, raise), Commands: []string{x.command(args...)}}
	if r.Do != raise {
		r.Commands = []string{x.command(t.listing(w, "in_progress")...)}
	}
	return r
}

// owedBy returns the overdue schedules of a table, and whether there may be more: those that fail at every attempt, or
// those that are not claimed. Both are read once. If it finds none among many, the error says that it did not look at
// all of them.
func (x *examination) owedBy(ctx context.Context, t *table, failing bool) (list []survey.Overdue, more bool,
	err error) {
	if t.owed == nil {
		t.owed = &owedSchedules{}
		t.owed.list, t.owed.more, t.owed.err = survey.OverdueSchedules(ctx, x.reader(), &t.Facts, x.Thresholds.Schedule,
			maxSample)
	}
	more, err = t.owed.more, t.owed.err
	for _, s := range t.owed.list {
		if (s.Failures > 0) == failing {
			list = append(list, s)
		}
	}
	if err == nil && more && len(list) == 0 {
		err = gap{"more schedules are due than are looked at", "mend those that are found, and look again"}
	}
	return list, more, err
}

// owedSchedules are the schedules of a table that owe an occurrence.
type owedSchedules struct {
	list []survey.Overdue
	more bool // there may be more than were looked at
	err  error
}

func failingSchedules(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	list, more, err := x.owedBy(ctx, t, true)
	for _, s := range list {
		cause := "no error was recorded"
		if s.Error != nil {
			cause = bounded(oneLine(*s.Error))
		}
		all = append(all, Finding{
			Title: fmt.Sprintf("%s: schedule %q should have fired %s ago, and %s failed since: %s", t.Name, s.Name,
				rough(seconds(s.Late)), plural(int64(s.Failures), "attempt"), cause),
			Evidence: []Evidence{evidence("id", s.ID, "schedule", s.Name, "expr", s.Expr, "late_seconds",
				seconds(s.Late), "failures", s.Failures, "last_error", s.Error)},
			Remedy: Remedy{
				Do: "Fix what the error names, or put the schedule again if its zone or its contents are wrong. It then fires " +
					"at its next attempt, within two minutes. Its misfire policy decides about missed occurrences.",
				Commands: []string{x.command("show", t.Name, s.ID)},
			},
		})
	}
	return t.shown(all, int64(len(all)), more, "failing schedule"), err
}

func overdueSchedules(ctx context.Context, x *examination, t *table) ([]Finding, error) {
	list, more, err := x.owedBy(ctx, t, false)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	f := Finding{
		Title: fmt.Sprintf("%s: schedule %q should have fired %s ago, but no worker runs schedules", t.Name,
			list[0].Name, rough(seconds(list[0].Late))),
		Remedy: Remedy{
			Do: "Start " + scheduler(t.Name) + " on this schema, which runs the schedules of " + t.Name +
				". Each schedule's misfire policy decides about missed occurrences.",
			Commands: []string{x.command("list", t.Name, "--status", "ready")},
		},
	}
	for _, s := range list[:min(len(list), maxShown)] {
		f.Evidence = append(f.Evidence, evidence("schedule", s.Name, "expr", s.Expr, "late_seconds", seconds(s.Late),
			"last_error", s.Error))
	}
	if n := int64(len(list)); n > maxShown || more {
		t.head(&f, counted(n, more, "overdue schedule"), len(f.Evidence))
		f.total(n, more)
	}
	return []Finding{f}, nil
}

// scheduler names the worker that runs the schedules of a table.
func scheduler(table string) string {
	switch table {
	case "timers_schedule":
		return "a timers.Worker, or `txwork worker` with timers in its file,"
	case "jobs_schedule":
		return "a jobs.Worker, or `txwork worker` with jobs in its file,"
	}
	return "the worker of that domain"
}

func deadSchedules(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	if !t.Schedule() {
		return nil, nil
	}
	type dead struct {
		ID, Name, Expr string
		Late           float64
		Error          *string
	}
	list, err := readRows[dead](ctx, x, "dead_schedules", t, maxSample)
	for _, s := range list {
		all = append(all, Finding{
			Title: fmt.Sprintf("%s: schedule %q is a dead letter and no longer fires", t.Name, s.Name),
			Evidence: []Evidence{evidence("id", s.ID, "schedule", s.Name, "expr", s.Expr, "failed_seconds",
				seconds(s.Late), "last_error", s.Error)},
			Remedy: Remedy{
				Do:       "Fix the cause, then redrive it.",
				Commands: []string{x.command("redrive", t.Name, s.ID)},
				SQL:      []string{t.redrive(s.ID)},
			},
		})
	}
	return t.shown(all, int64(len(all)), len(all) >= maxSample, "dead schedule"), err
}

// redrive returns the SQL that makes rows ready again.
func (t *table) redrive(ids ...string) string {
	return fmt.Sprintf("SELECT * FROM %s(ARRAY['%s']::uuid[]);", t.Q("_redrive"), strings.Join(ids, "', '"))
}

// quoted returns a qualified name for SQL.
func quoted(parts ...string) string { return pgx.Identifier(parts).Sanitize() }
