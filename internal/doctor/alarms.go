package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/timers/alarms"
)

// alarmChecks look for alarms that their receivers did not get.
var alarmChecks = []check{
	{
		code: "alarm-failed", severity: Warning,
		title:   "alarms that have failed: their deliveries are used up, or no delivery can succeed",
		from:    "one within " + rough(alarmsFailedOf),
		meaning: "Whoever was to be woken was not, and is not until somebody redrives the timers of these alarms.",
		remedy:  "fix the cause that `last_error` names, then `txwork redrive timers`",
		look:    inAlarms(failedAlarms),
	},
	{
		code: "alarm-failing", severity: Warning,
		title: "repeating alarms whose last occurrences all failed",
		from:  rough(defaultThresholds.Alarm) + ", at least one occurrence",
		meaning: "Whoever is to be woken repeatedly is not. Occurrences that were given up, or overtaken by the next, are " +
			"not delivered later.",
		remedy: "fix the cause that `last_error` names: the next occurrence is then delivered when it is due",
		look:   inAlarms(failingAlarms),
	},
	{
		code: "alarm-stranded", severity: Critical,
		title:   "due alarms that have no timer, and no dispatcher that repairs them",
		from:    rough(defaultThresholds.Unserved),
		meaning: "Whoever is to be woken is not, although nothing has failed. A dispatcher gives such alarms a timer.",
		remedy:  "start a dispatcher of alarms",
		look:    inAlarms(strandedAlarms),
	},
}

const (
	// alarmsFailedOf is how far back alarms that have failed are examined: they are kept for ever.
	alarmsFailedOf = 24 * time.Hour
	// timersOfAlarms is the table by whose rows alarms fire.
	timersOfAlarms = "timers"
	// maxOccurrences is up to how many occurrences of an alarm are counted.
	maxOccurrences = 100
)

// alarmsTable is the table of alarms, which is none of the core. Its rows fire by the timers of the schema.
type alarmsTable struct {
	table
	timers *table // nil if the schema's timers are missing or not recognized
}

// inAlarms examines the alarms of the schema, if it has any. A role that row-level security shows a part of the alarms,
// or of their timers, examines what it sees.
func inAlarms(look func(context.Context, *examination, *alarmsTable) ([]Finding, error)) func(context.Context,
	*examination) ([]Finding, error) {
	return func(ctx context.Context, x *examination) ([]Finding, error) {
		a, err := x.findAlarms(ctx)
		if err != nil || a == nil {
			return nil, err
		}
		if a.gaveUp != nil {
			x.skip(ctx, x.current.code, a.Name, a.gaveUp)
			return nil, nil
		}
		if a.Filtered {
			x.skip(ctx, x.current.code, a.Name, x.filtered())
		}
		found, err := look(ctx, x, a)
		a.note(err)
		if err != nil {
			x.skip(ctx, x.current.code, a.Name, err)
		}
		for i := range found {
			found[i].Table = a.Name
		}
		return found, nil
	}
}

// findAlarms returns the table of alarms, or nil if the schema has none.
func (x *examination) findAlarms(ctx context.Context) (*alarmsTable, error) {
	if x.alarms != nil {
		return x.alarms, nil
	}
	there, filtered, err := survey.Alarms(ctx, x.reader(), x.Schema)
	if err != nil || !there {
		return nil, err
	}
	x.alarms = &alarmsTable{table: table{Facts: survey.Facts{Schema: x.Schema, Name: "alarms",
		Filtered: filtered}}}
	if i := slices.IndexFunc(x.tables, func(t *table) bool { return t.Name == timersOfAlarms }); i >= 0 {
		x.alarms.timers = x.tables[i]
	}
	return x.alarms, nil
}

// timersOf returns the table of the alarms' timers, or why it cannot be looked at.
func (x *examination) timersOf(a *alarmsTable) (*table, error) {
	if a.timers == nil {
		return nil, gap{"the timers of the alarms are missing, or lack the comment of the core", ""}
	}
	return a.timers, a.timers.gaveUp
}

// A deadTimer is a timer of an alarm that is a dead letter.
type deadTimer struct {
	Key    string
	Failed float64
	More   bool // there may be more than were looked at
}

// readDeadTimers returns the alarms whose timers are dead letters, the latest first, and since when in seconds.
func (x *examination) readDeadTimers(ctx context.Context, a *alarmsTable) (ids []uuid.UUID, failed []float64, more bool,
	err error) {
	t, err := x.timersOf(a)
	if err != nil {
		return nil, nil, false, err
	}
	if t.Filtered {
		x.skip(ctx, x.current.code, t.Name, x.filtered())
	}
	list, err := readRows[deadTimer](ctx, x, "alarms_dead", t, alarmsFailedOf.Seconds(), maxHead, alarms.Topic)
	t.note(err)
	for _, d := range list {
		key, _ := strings.CutPrefix(d.Key, alarms.KeyPrefix)
		if id, err := uuid.Parse(key); err == nil {
			ids, failed = append(ids, id), append(failed, d.Failed)
		}
		more = d.More
	}
	return ids, failed, more, err
}

// A failedAlarm has failed for good.
type failedAlarm struct {
	Place                  int64 // of its id among those that were asked for, from 1
	ID, Label, Kind, Error string
}

func failedAlarms(ctx context.Context, x *examination, a *alarmsTable) ([]Finding, error) {
	ids, failed, more, err := x.readDeadTimers(ctx, a)
	if err != nil {
		x.skip(ctx, x.current.code, timersOfAlarms, err)
		return nil, nil
	}
	if more {
		x.skip(ctx, x.current.code, timersOfAlarms, gap{fmt.Sprintf("%d or more rows have failed within %s: only the latest "+
			"were looked at", maxHead, rough(alarmsFailedOf)), "mend those that are found, and look again"})
	}
	list, err := readRows[failedAlarm](ctx, x, "alarms_failed", a, ids)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	first, n := list[0], int64(len(list))
	f := Finding{
		Title: fmt.Sprintf("alarms: %s failed within %s, the latest %s ago: %s: %s", counted(n, more, "alarm"),
			rough(alarmsFailedOf), rough(seconds(failed[first.Place-1])), alarm(first.ID, first.Label),
			bounded(oneLine(first.Error))),
		Remedy: Remedy{
			Do: "Fix what the error names, at the receiver or on the way to it. Then redrive the timers of these alarms: " +
				"each is delivered again, with the same webhook-id.",
			Commands: []string{x.command("redrive", timersOfAlarms, "--topic", alarms.Topic, "--newer-than", "24h")},
			SQL: []string{fmt.Sprintf("SELECT * FROM %s(ARRAY(SELECT id FROM %s WHERE failed_at > now() - "+
				"interval '24 hours' AND cancelled_at IS NULL AND topic = '%s' LIMIT 1000));", a.timers.Q("_redrive"),
				a.timers.Table(), alarms.Topic)},
		},
	}
	for _, l := range list[:min(len(list), maxShown)] {
		f.Evidence = append(f.Evidence, evidence("alarm", l.ID, "label", l.Label, "kind", l.Kind, "failed_seconds",
			seconds(failed[l.Place-1]), "last_error", l.Error))
	}
	if n > maxShown || more {
		f.total(n, more)
	}
	return []Finding{f}, nil
}

// alarm names an alarm.
func alarm(id, label string) string {
	if label == "" {
		return id
	}
	return fmt.Sprintf("%s %q", id, bounded(label))
}

// A failingAlarm is a series whose last delivery failed.
type failingAlarm struct {
	ID, Label, Expr, Zone, Error string
	Since                        time.Time // its last delivery that succeeded, or its creation
	Fired                        bool      // there was such a delivery
	Pending                      bool      // an occurrence is due or being retried
	Next                         float64   // seconds until the next delivery
}

// A lostSeries is a failing series with what it has not delivered.
type lostSeries struct {
	failingAlarm
	n    int           // occurrences that were given up or overtaken by the next
	more bool          // there are more than are counted
	late time.Duration // since the first of them was due
}

// lost counts what a series has not delivered. If its rule can no longer be read, one occurrence is known.
func (f failingAlarm) lost(now time.Time) lostSeries {
	l := lostSeries{failingAlarm: f}
	rule, err := schedule.Parse(f.Expr, f.Zone)
	if err != nil {
		l.n, l.late = 1, now.Sub(f.Since)
		return l
	}
	next, ok := rule.Next(f.Since)
	l.late = now.Sub(next)
	for ; ok && !next.After(now) && !l.more; next, ok = rule.Next(next) {
		l.n++
		l.more = l.n > maxOccurrences
	}
	if f.Pending || l.more { // the last of them may still be delivered
		l.n--
	}
	return l
}

func failingAlarms(ctx context.Context, x *examination, a *alarmsTable) ([]Finding, error) {
	read, err := readRows[failingAlarm](ctx, x, "alarms_failing", a, maxSample)
	if err != nil {
		return nil, err
	}
	more := len(read) >= maxSample
	if more {
		x.skip(ctx, x.current.code, a.Name, upTo(maxSample, "repeating alarms whose last delivery failed"))
	}
	var list []lostSeries
	for _, f := range read {
		if l := f.lost(x.report.At); l.n > 0 && l.late > x.Thresholds.Alarm {
			list = append(list, l)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	first, n := list[0], int64(len(list))
	f := Finding{
		Title: fmt.Sprintf("alarms: %s keep%s failing: %s missed %s, the first %s ago: %s", counted(n, more,
			"repeating alarm"), verb(n, "s", ""), alarm(first.ID, first.Label), first.missed(), rough(first.late),
			bounded(oneLine(first.Error))),
		Remedy: Remedy{
			Do: "Fix what the error names, at the receiver or on the way to it. The next occurrence is then delivered when it " +
				"is due, which this shows; what was missed is not. A series that nobody needs is cancelled by its owner.",
			Commands: []string{x.command("timers", "list", "--prefix", postgres.Shell(alarms.KeyPrefix+first.ID))},
		},
	}
	for _, l := range list[:min(len(list), maxShown)] {
		e := evidence("alarm", l.ID, "label", l.Label, "expr", l.Expr, "timezone", l.Zone,
			totalName("missed", l.more), l.n, "first_missed_seconds", l.late)
		if l.Fired {
			e = append(e, evidence("delivered_seconds", x.report.At.Sub(l.Since))...)
		}
		f.Evidence = append(f.Evidence, append(e, evidence("next_in_seconds", max(seconds(l.Next), 0), "last_error",
			l.Error)...))
	}
	if n > maxShown || more {
		f.total(n, more)
	}
	return []Finding{f}, nil
}

// missed says how many occurrences were not delivered.
func (l lostSeries) missed() string {
	if l.n == 1 && !l.more {
		return "its last occurrence"
	}
	return "its last " + counted(int64(l.n), l.more, "occurrence")
}

// A strandedAlarm is due and has no timer that could fire, see [alarms.Dispatcher.Repair].
type strandedAlarm struct {
	ID, Label string
	Due       float64 // for so many seconds
	Ended     bool    // its timer has ended
	More      bool    // more alarms are due than were looked at
}

// strandedAlarms concludes from timers that are missing, so it needs to see all of them. The timers are first asked for
// nothing: if that fails, it is they that cannot be read.
func strandedAlarms(ctx context.Context, x *examination, a *alarmsTable) ([]Finding, error) {
	t, err := x.timersOf(a)
	if err == nil && t.Filtered {
		err = x.filtered()
	} else if err == nil {
		_, err = readRows[struct{}](ctx, x, "nothing", t)
		t.note(err)
	}
	if err != nil {
		x.skip(ctx, x.current.code, timersOfAlarms, err)
		return nil, nil
	}
	type both struct{ Alarms, Timers *table }
	list, err := readRows[strandedAlarm](ctx, x, "alarms_stranded", both{&a.table, t}, x.Thresholds.Unserved.Seconds(),
		maxHead, alarms.KeyPrefix)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	more := list[0].More
	if more {
		x.skip(ctx, x.current.code, a.Name, upTo(maxHead, "due alarms"))
	}
	if list[0].ID == "" {
		return nil, nil
	}
	first, n := list[0], int64(len(list))
	f := Finding{
		Title: fmt.Sprintf("alarms: %s %s due and %s no timer that could fire, the first for %s: %s",
			counted(n, more, "alarm"), verb(n, "is", "are"), verb(n, "has", "have"), rough(seconds(first.Due)),
			alarm(first.ID, first.Label)),
		Remedy: Remedy{
			Do: "Start a dispatcher of alarms: it gives each of them a timer within five seconds, which this then shows. If " +
				"one runs, its log says what keeps it from that.",
			Commands: []string{x.command("timers", "list", "--prefix", postgres.Shell(alarms.KeyPrefix+first.ID))},
		},
	}
	for _, l := range list[:min(len(list), maxShown)] {
		f.Evidence = append(f.Evidence, evidence("alarm", l.ID, "label", l.Label, "due_seconds", seconds(l.Due),
			"timer_has_ended", l.Ended))
	}
	if n > maxShown || more {
		f.total(n, more)
	}
	return []Finding{f}, nil
}
