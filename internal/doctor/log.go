package doctor

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
)

// logChecks look at an outbox that is a log: for subscriptions that do not go on, and for what all of them need. Parked
// messages are rows, which the other checks look at.
var logChecks = []check{
	{
		code: "log-restored", severity: Critical,
		title: "an outbox that is a log in a cluster whose transaction ids began again",
		meaning: "Nothing is delivered, and messages are refused, until the log is rebased: what is written now could " +
			"pass for what was delivered before the restore.",
		remedy: "stop the consumers of the old cluster, then call `outbox_log_rebase()`",
		look:   inLog(restoredLog),
	},
	{
		code: "log-unticked", severity: Critical, fixes: true,
		title:   "messages of a log that no tick has seen: none of its relays or reapers ticks",
		from:    rough(defaultThresholds.Unserved),
		meaning: "No subscription gets these messages, and the log keeps them for ever.",
		remedy:  "start a relay of a subscription, or run `txwork reap outbox_log_parked`",
		look:    inLog(untickedLog),
	},
	{
		code: "subscription-unserved", severity: Critical,
		title:   "a subscription that no consumer reads",
		from:    rough(defaultThresholds.Unserved),
		meaning: "Its messages are not delivered, and the log keeps all of them for it.",
		remedy: "start a relay of it; only if nobody needs its messages, let it pass over old ones with " +
			"`txwork subscriptions cut`, or remove it with `txwork subscriptions remove`",
		look: inLog(unservedSubscriptions),
	},
	{
		code: "subscription-behind", severity: Warning,
		title:   "a subscription whose messages wait although it is read",
		from:    rough(defaultThresholds.Backlog) + "; critical from " + rough(12*defaultThresholds.Backlog),
		meaning: "Messages are delivered late, and the log keeps them for as long.",
		remedy: "bring back a destination that is unavailable; make its handlers faster, or give it more of them or more " +
			"lanes; only if nobody needs old messages, let it pass over them with `txwork subscriptions cut`",
		look: inLog(slowSubscriptions),
	},
	{
		code: "subscription-paused", severity: Warning,
		title:   "a paused subscription with messages that wait",
		from:    rough(defaultThresholds.Backlog),
		meaning: "Its messages are not delivered until somebody resumes it, and the log keeps all of them for it.",
		remedy:  "`txwork subscriptions resume NAME`",
		look:    inLog(pausedSubscriptions),
	},
	{
		code: "subscription-losing", severity: Warning,
		title:   "a subscription that has lost messages by its retention in the last day, or is about to",
		from:    "80 % of its retention",
		meaning: "The messages are not delivered to this subscription, unless it is replayed.",
		remedy: "find out why it is behind; `txwork subscriptions change NAME` with a longer `--max-age` or more " +
			"`--max-messages`",
		look: inLog(losingSubscriptions),
	},
	{
		code: "log-untrimmed", severity: Warning, fixes: true,
		title:   "messages of a log that all subscriptions have passed and nobody removes",
		from:    rough(untrimmed),
		meaning: "The log grows for ever.",
		remedy:  "run a reaper of the parked messages, or `txwork reap outbox_log_parked`",
		look:    inLog(untrimmedLog),
	},
}

// untrimmed is how old messages may be that all have passed: they are kept for a week, and removed by the day.
const untrimmed = 9 * 24 * time.Hour

// A logTable is the log of the schema. It is no table of the core.
type logTable struct {
	survey.Log
	restored *bool
	facts    *survey.LogFacts
	judged   *judgedSubscriptions
}

// judgedSubscriptions are those that have been behind for longer than a threshold.
type judgedSubscriptions struct{ unread, behind, paused, losing []survey.Subscription }

// inLog examines the log of the schema, if it has one. A role that sees a part of it examines nothing: the functions of
// the log refuse it.
func inLog(look func(context.Context, *examination, *logTable) ([]Finding, error)) func(context.Context,
	*examination) ([]Finding, error) {
	return func(ctx context.Context, x *examination) ([]Finding, error) {
		if x.log == nil {
			l, err := survey.LogOf(ctx, x.reader(), x.Schema)
			if err != nil {
				return nil, err
			}
			if x.log = new(logTable); l != nil {
				x.log.Log = *l
			}
		}
		l := x.log
		if l.Name == "" {
			return nil, nil
		}
		if l.Filtered {
			x.skip(ctx, x.current.code, l.Name, x.filtered())
			return nil, nil
		}
		found, err := look(ctx, x, l)
		if err != nil {
			x.skip(ctx, x.current.code, l.Name, err)
		}
		for i := range found {
			found[i].Table = l.Name
		}
		return found, nil
	}
}

func restoredLog(ctx context.Context, x *examination, l *logTable) ([]Finding, error) {
	is, err := l.isRestored(ctx, x)
	if err != nil || !is {
		return nil, err
	}
	facts, err := l.readFacts(ctx, x)
	return []Finding{{
		Title: fmt.Sprintf("%s: transaction ids began again since tick %d, as after a restore", l.Name, facts.Tick),
		Evidence: []Evidence{evidence("tick", facts.Tick, "tick_seconds", seconds(facts.TickAge), "log_bytes",
			facts.Bytes)},
		Remedy: Remedy{
			Do: "Make sure that no consumer of the old cluster runs any more: what one of them settles from here on would " +
				"be unknown here. Then, as the owner of the tables:",
			SQL: []string{fmt.Sprintf("SELECT %s();", l.Q("_rebase"))},
		},
	}}, err
}

func (l *logTable) isRestored(ctx context.Context, x *examination) (bool, error) {
	if l.restored == nil {
		is, err := survey.IsRestored(ctx, x.reader(), &l.Log)
		if err != nil {
			return false, err
		}
		l.restored = &is
	}
	return *l.restored, nil
}

func (l *logTable) readFacts(ctx context.Context, x *examination) (survey.LogFacts, error) {
	if l.facts == nil {
		facts, err := survey.FactsOfLog(ctx, x.reader(), &l.Log)
		if err != nil {
			return facts, err
		}
		l.facts = &facts
	}
	return *l.facts, nil
}

// untickedLog looks twice: a message of a long transaction is old when it becomes visible, but is ticked a moment
// later.
func untickedLog(ctx context.Context, x *examination, l *logTable) ([]Finding, error) {
	if restored, err := l.isRestored(ctx, x); err != nil || restored {
		return nil, err // it is ticked once it is rebased
	}
	facts, err := l.readFacts(ctx, x)
	if err != nil || seconds(facts.Unticked) <= x.Thresholds.Unserved {
		return nil, err
	}
	if l.facts, err = nil, x.wait(ctx); err != nil {
		return nil, err
	}
	facts, err = l.readFacts(ctx, x)
	if err != nil || seconds(facts.Unticked) <= x.Thresholds.Unserved {
		return nil, err
	}
	return []Finding{{
		Title: fmt.Sprintf("%s: no tick has seen messages that were written %s ago", l.Name,
			rough(seconds(facts.Unticked))),
		Evidence: []Evidence{evidence("oldest_seconds", seconds(facts.Unticked), "tick", facts.Tick, "tick_seconds",
			seconds(facts.TickAge), "log_bytes", facts.Bytes)},
		Remedy: Remedy{
			Do: "Tick by hand, and start a relay of a subscription, or a reaper of the parked messages. If one is running, " +
				"its log says why it does not tick.",
			Commands: []string{x.command("reap", "--no-purge", l.Parked())},
			SQL:      []string{fmt.Sprintf("CALL %s();", l.Q("_tick"))},
		},
		Fixable: true,
	}}, nil
}

// judge divides the subscriptions that are behind. Nobody reads one whose lanes are not in hand, and have not moved
// since an earlier look.
func (l *logTable) judge(ctx context.Context, x *examination) (judgedSubscriptions, error) {
	if l.judged != nil {
		return *l.judged, nil
	}
	if restored, err := l.isRestored(ctx, x); err != nil || restored {
		return judgedSubscriptions{}, err // they go on once it is rebased
	}
	all, err := survey.Subscriptions(ctx, x.reader(), &l.Log)
	if err != nil {
		return judgedSubscriptions{}, err
	}
	before := map[string]*survey.Subscription{}
	for i, s := range all {
		if !s.Paused && s.InHand() == 0 && seconds(s.Age()) > x.Thresholds.Unserved {
			before[s.Name] = &all[i]
		}
	}
	if len(before) > 0 {
		if err = x.wait(ctx); err == nil {
			all, err = survey.Subscriptions(ctx, x.reader(), &l.Log)
		}
		if err != nil {
			return judgedSubscriptions{}, err
		}
	}
	var j judgedSubscriptions
	for _, s := range all {
		age, first := seconds(s.Age()), before[s.Name]
		if s.Retention.GivenUp > 0 || s.Used() > nearRetention {
			j.losing = append(j.losing, s)
		}
		switch {
		case s.Paused && age > x.Thresholds.Backlog:
			j.paused = append(j.paused, s)
		case s.Paused:
		case first != nil && !s.Stirs(first) && !s.IsProbed() && age > x.Thresholds.Unserved:
			j.unread = append(j.unread, s)
		case age > x.Thresholds.Backlog:
			j.behind = append(j.behind, s)
		}
	}
	l.judged = &j
	return j, nil
}

func unservedSubscriptions(ctx context.Context, x *examination, l *logTable) (all []Finding, err error) {
	j, err := l.judge(ctx, x)
	for _, s := range j.unread {
		all = append(all, Finding{
			Title:    fmt.Sprintf("%s: no consumer reads subscription %s: %s", l.Name, s.Name, behind(&s)),
			Evidence: subscriptionEvidence(&s),
			Remedy: Remedy{
				Do: "Start a relay of the subscription. If one is running, its log says why it does not read. Its messages " +
					"wait. Only if nobody needs them, let the subscription pass over what is old, or remove it: these say what " +
					"would be lost.",
				Commands: []string{l.cut(x, s.Name, x.Thresholds.Unserved),
					x.command("subscriptions", "remove", s.Name, "--dry-run")},
			},
		})
	}
	return l.shown(all, "subscription"), err
}

func slowSubscriptions(ctx context.Context, x *examination, l *logTable) (all []Finding, err error) {
	j, err := l.judge(ctx, x)
	for _, s := range j.behind {
		f := Finding{
			Title:    fmt.Sprintf("%s: subscription %s is behind%s: %s", l.Name, s.Name, away(&s), behind(&s)),
			Evidence: subscriptionEvidence(&s),
			Remedy:   l.faster(x, &s),
		}
		if seconds(s.Age()) > 12*x.Thresholds.Backlog {
			f.Severity = Critical
		}
		all = append(all, f)
	}
	return l.shown(all, "subscription"), err
}

// faster is what helps a subscription that is behind.
func (l *logTable) faster(x *examination, s *survey.Subscription) Remedy {
	if s.Rest != nil {
		return Remedy{
			Do: "Bring its destination back. Its messages wait, and nothing is lost: one of them probes the destination at " +
				"least every 10 seconds, and the relays go on as soon as it answers. This has them try at once.",
			Commands: []string{x.command("subscriptions", "resume", s.Name)},
		}
	}
	return Remedy{
		Do: "Find out what its handlers wait for. Give its relays more handlers, or the subscription more lanes: the first " +
			"command says how many messages come again if lanes are added. Only if nobody needs old messages, let it pass " +
			"over them: the second says what would be lost.",
		Commands: []string{l.widen(x, s), l.cut(x, s.Name, x.Thresholds.Backlog)},
	}
}

// widen is the command that says what it repeats to double the lanes of a subscription while its consumers run: all go
// back to one place that none of them has passed, with a minute to spare until somebody runs it.
func (l *logTable) widen(x *examination, s *survey.Subscription) string {
	return x.command("subscriptions", "change", s.Name, "--lanes", fmt.Sprint(min(2*len(s.Lanes), postgres.LogLanes)),
		"--replay-from", fmt.Sprintf("%.0fm", math.Ceil(s.Age()/60)+1), "--dry-run")
}

func pausedSubscriptions(ctx context.Context, x *examination, l *logTable) (all []Finding, err error) {
	j, err := l.judge(ctx, x)
	if err != nil {
		return nil, err
	}
	move, err := survey.MoveOf(ctx, x.reader(), &l.Log)
	if move != nil && move.Limited > 0 {
		all = append(all, l.doesNotEnd(x, move))
	}
	for _, s := range j.paused {
		f := Finding{
			Title:    fmt.Sprintf("%s: subscription %s is paused: %s", l.Name, s.Name, behind(&s)),
			Evidence: subscriptionEvidence(&s),
			Remedy: Remedy{
				Do:       "Resume the subscription once the reason for the pause is gone.",
				Commands: []string{x.command("subscriptions", "resume", s.Name)},
				SQL:      []string{fmt.Sprintf("SELECT %s(%s);", l.Q("_resume"), postgres.Literal(s.Name))},
			},
		}
		if move != nil && s.Name == move.Successor {
			f.Title = fmt.Sprintf("%s: the outbox has not moved to subscription %s yet, which waits for it: %s", l.Name,
				s.Name, behind(&s))
			f.Remedy = Remedy{
				Do:       "Go on with the move, which resumes the subscription at its end. It waits for rows in progress.",
				Commands: []string{x.command("outbox", "move", "log", "--subscription", s.Name)},
			}
		}
		all = append(all, f)
	}
	return l.shown(all, "paused subscription"), err
}

// nearRetention is the part of its retention from which on a subscription is about to lose messages.
const nearRetention = 0.8

func losingSubscriptions(ctx context.Context, x *examination, l *logTable) (all []Finding, err error) {
	j, err := l.judge(ctx, x)
	for _, s := range j.losing {
		r := s.Retention
		facts := evidence("subscription", s.Name, "max_age_seconds", seconds(r.MaxAge), "max_messages", r.MaxMessages,
			"used", math.Round(100*s.Used())/100, "lost_last_day", r.GivenUp, "lost", r.Lost)
		f := Finding{
			Title: fmt.Sprintf("%s: subscription %s is at %.0f %% of its retention, beyond which it loses messages: %s",
				l.Name, s.Name, 100*s.Used(), behind(&s)),
			Evidence: []Evidence{facts},
			Remedy: Remedy{
				Do: "Find out why the subscription is behind: another finding may say. If its messages are needed, let it " +
					"keep more of them meanwhile.",
				Commands: l.keepMore(x, &s),
			},
		}
		if r.GivenUp > 0 {
			f.Title = fmt.Sprintf("%s: subscription %s has lost %s by its retention in the last day", l.Name, s.Name,
				counted(r.GivenUp, false, "message"))
			if r.GivenUpUntil != nil {
				f.Title += ", up to those of " + r.GivenUpUntil.UTC().Format(time.RFC3339)
			}
			f.Remedy.Do += " What it has lost is kept for a week, and is delivered if the subscription is replayed."
		}
		all = append(all, f)
	}
	return l.shown(all, "subscription"), err
}

// keepMore is the command that doubles the retention of a subscription that is about to exceed it.
func (l *logTable) keepMore(x *examination, s *survey.Subscription) []string {
	if s.Used() <= nearRetention {
		return nil
	}
	args := []string{"subscriptions", "change", s.Name}
	if age := s.Retention.MaxAge; age > 0 {
		args = append(args, "--max-age", fmt.Sprintf("%.0fs", min(2*age, postgres.LogMaxAge.Seconds())))
	}
	if n := s.Retention.MaxMessages; n > 0 {
		args = append(args, "--max-messages", fmt.Sprint(min(2*n, postgres.LogMaxMessages)))
	}
	return []string{x.command(args...)}
}

// doesNotEnd is about a move of an outbox that waits for rows which do not move.
func (l *logTable) doesNotEnd(x *examination, m *survey.Move) Finding {
	return Finding{
		Title: fmt.Sprintf("%s: the outbox does not move to subscription %s before relays of the rows have delivered %s "+
			"whose key has a limit", l.Name, m.Successor, plural(m.Limited, "row")),
		Evidence: []Evidence{evidence("subscription", m.Successor, "limited", m.Limited, "unfinished", m.Unfinished,
			"in_progress", m.InProgress)},
		Remedy: Remedy{
			Do: "Run relays of the rows until these are delivered, or cancel them: a log has no limits of keys. This says " +
				"how far the move is.",
			Commands: []string{x.command("outbox", "move", "log", "--subscription", m.Successor, "--dry-run")},
		},
	}
}

// cut is the command that says what a subscription would lose by passing over messages of an age.
func (l *logTable) cut(x *examination, name string, age time.Duration) string {
	return x.command("subscriptions", "cut", name, "--older-than", fmt.Sprintf("%.0fs", age.Seconds()), "--dry-run")
}

// manyAttempts are more claims of a batch than those whose consumers were stopped, or died once.
const manyAttempts = 3

// behind says how far a subscription is behind, and what that keeps. Claims of a batch grow while its consumers die, or
// cannot settle it.
func behind(s *survey.Subscription) string {
	n, more := s.Messages()
	text := fmt.Sprintf("%s, for %s, and the log keeps %d MB for it", counted(n, more, "message"),
		rough(seconds(s.Age())), (s.Retained()+1<<20-1)>>20)
	if attempts := s.Attempts(); attempts >= manyAttempts {
		text += fmt.Sprintf("; a batch was claimed %d times without being settled", attempts)
	}
	return text
}

// away says for how long the destination of a subscription has been unavailable.
func away(s *survey.Subscription) string {
	if s.Rest == nil {
		return ""
	}
	return fmt.Sprintf(", and its destination has been unavailable for %s", rough(seconds(s.Rest.Seconds)))
}

// subscriptionEvidence has a line for each lane that is behind.
func subscriptionEvidence(s *survey.Subscription) (all []Evidence) {
	for _, l := range s.Lanes {
		if l.Oldest == 0 && l.Behind == 0 || len(all) == maxShown {
			continue
		}
		facts := evidence("subscription", s.Name, "lane", l.Lane, totalName("messages", l.More), l.Messages,
			"oldest_seconds", seconds(l.Oldest), "behind_seconds", seconds(l.Behind), "retained_bytes", l.Retained,
			"attempts", l.Attempts, "parked", s.Live, "dead_letters", s.Dead)
		if r := s.Rest; r != nil {
			facts = append(facts, evidence("unavailable_seconds", seconds(r.Seconds), "probe_in_seconds",
				seconds(max(r.Probe, 0)), "cause", r.Cause)...)
		}
		all = append(all, facts)
	}
	return all
}

// shown returns the first of many findings, the first of which says how many there are.
func (l *logTable) shown(all []Finding, noun string) []Finding {
	t := table{Facts: survey.Facts{Name: l.Name}}
	return t.shown(all, int64(len(all)), false, noun)
}

func untrimmedLog(ctx context.Context, x *examination, l *logTable) ([]Finding, error) {
	facts, err := l.readFacts(ctx, x)
	if err != nil || !facts.Passed || seconds(facts.Oldest) <= untrimmed {
		return nil, err
	}
	return []Finding{{
		Title: fmt.Sprintf("%s: all subscriptions have passed messages that were written %s ago, and nobody removes them",
			l.Name, rough(seconds(facts.Oldest))),
		Evidence: []Evidence{evidence("oldest_seconds", seconds(facts.Oldest), "log_bytes", facts.Bytes)},
		Remedy: Remedy{
			Do: "Trim the log by hand, and start a reaper of the parked messages, or a worker of them. If one is running, " +
				"its log says why it does not trim. An open transaction that has written to a slot of the log keeps it.",
			Commands: []string{x.command("reap", "--no-purge", l.Parked())},
			SQL:      []string{fmt.Sprintf("CALL %s();", l.Q("_trim"))},
		},
		Fixable: true,
	}}, nil
}
