//go:build unix

package torture

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Report is the result of a run. Durations are nanoseconds in JSON.
type Report struct {
	Seed            uint64                 `json:"seed"`
	Duration        time.Duration          `json:"duration"` // for which faults struck
	Rows            int                    `json:"rows"`     // that were committed, those of schedules included
	Claims          int                    `json:"claims"`
	Redeliveries    int                    `json:"redeliveries"`     // claims beyond a row's first
	Reaped          int                    `json:"reaped"`           // claims whose lease ended
	Refused         int                    `json:"refused"`          // handlers that ended after that
	ProcessesEnded  int                    `json:"processes_ended"`  // before the run did
	Outages         int                    `json:"outages"`          // of the server
	Lost            int                    `json:"lost"`             // I1, I10
	DoubleSettles   int                    `json:"double_settles"`   // I5, I11
	OrderViolations int                    `json:"order_violations"` // I8
	EarlyTimers     int                    `json:"early_timers"`     // I9, of timers
	Violations      map[string]int         `json:"violations"`       // by invariant
	Faults          map[string]FaultReport `json:"faults"`           // by name
	Skipped         []Skip                 `json:"skipped"`          // could not strike, and why
	NotStruck       []Skip                 `json:"not_struck"`       // could have, and why they have not
	Overtime        time.Duration          `json:"overtime"`         // went on until every fault had struck
	Failures        []string               `json:"failures"`         // what else went wrong
	DrainedIn       time.Duration          `json:"drained_in"`       // once the faults had stopped
	Found           []Violation            `json:"found"`            // the first of them
	Announcers      AnnouncerReport        `json:"announcers"`
	Log             LogVerdict             `json:"log"`
	Crews           map[string]CrewReport  `json:"crews"` // go and sql
	Repeat          string                 `json:"repeat"`
}

// A FaultReport is what one fault did.
type FaultReport struct {
	Strikes int `json:"strikes"`
	// Recovery is the time from a strike until every row in progress at the strike had been settled or reaped.
	RecoveryP50 time.Duration   `json:"recovery_p50"`
	RecoveryMax time.Duration   `json:"recovery_max"`
	Recoveries  []time.Duration `json:"recoveries"` // of all strikes, the shortest first
	Took        []time.Duration `json:"took"`       // what each strike took, with what it waited for
	Details     []string        `json:"details"`    // what each strike did
	Errors      []string        `json:"errors"`     // strikes that failed
}

// A CrewReport says what the producers and workers did that use the library, or the SQL functions only.
type CrewReport struct {
	// Enqueued counts the committed rows of the crew's own producers, not those of faults and checks. A timer or
	// message counts as often as it was written.
	Enqueued int            `json:"enqueued"`
	Handled  map[string]int `json:"handled"` // handlers that ended without an error, by table
}

// An AnnouncerReport says what announcers did, and how long rows waited to be found.
type AnnouncerReport struct {
	Awake   int           `json:"awake"`   // how often one woke up
	Broke   int           `json:"broke"`   // how often the session of one failed
	Share   float64       `json:"share"`   // of the time: one of any table was awake
	Waits   int           `json:"waits"`   // of rows, that were judged
	Longest time.Duration `json:"longest"` // of them
	// how often the server answered late or not at all, which no wait is judged beside
	Still int `json:"still"`
}

func (r *run) announcers(v Verdict, records *records) AnnouncerReport {
	return AnnouncerReport{
		Awake: records.awake, Broke: len(records.broke), Share: float64(r.pulse.awake) / float64(max(r.pulse.asked, 1)),
		Waits: v.Waits, Longest: v.LongestWait, Still: r.pulse.still,
	}
}

func (r *run) summarise(v Verdict) *Report {
	o := r.lab.options
	report := &Report{
		Seed: o.Seed, Duration: r.calm.Sub(r.began), Rows: v.Rows, Claims: v.Claims, Redeliveries: v.Redeliveries,
		Reaped: v.Reaped, Refused: v.Refused, ProcessesEnded: r.lab.crew.deaths() - len(r.lab.crew.slots),
		Outages: len(r.lab.outages),
		Lost:    v.Counts["I1"] + v.Counts["I10"], DoubleSettles: v.Counts["I5"] + v.Counts["I11"],
		OrderViolations: v.Counts["I8"],
		EarlyTimers:     v.EarlyTimers, Violations: v.Counts, Faults: map[string]FaultReport{},
		Skipped: r.conductor.skips, NotStruck: []Skip{}, Overtime: r.overtime(),
		Failures: r.lab.failures, DrainedIn: r.drained, Found: v.Violations, Repeat: o.command(),
	}
	for _, name := range r.conductor.names {
		f := r.faultReport(name, v.Recovered)
		if f.Strikes > 0 || len(f.Errors) > 0 {
			report.Faults[name] = f
		}
		if f.Strikes == 0 {
			report.NotStruck = append(report.NotStruck, Skip{name, r.conductor.reason(name)})
		}
	}
	return report
}

func (r *run) faultReport(name string, recovered []time.Duration) (f FaultReport) {
	f = FaultReport{Recoveries: []time.Duration{}, Took: []time.Duration{}, Details: []string{}, Errors: []string{}}
	for i, s := range r.conductor.strikes {
		switch {
		case s.Fault != name:
		case s.Error != "":
			f.Errors = append(f.Errors, s.Error)
		default:
			f.Strikes++
			f.Recoveries, f.Details = append(f.Recoveries, recovered[i]), append(f.Details, s.Detail)
			f.Took = append(f.Took, s.Took)
		}
	}
	slices.Sort(f.Recoveries)
	f.RecoveryP50, f.RecoveryMax = Spread(f.Recoveries)
	return f
}

// Spread returns the median and the maximum of sorted durations, or zeros if there are none.
func Spread(sorted []time.Duration) (p50, longest time.Duration) {
	if len(sorted) == 0 {
		return 0, 0
	}
	return sorted[(len(sorted)-1)/2], sorted[len(sorted)-1]
}

// command returns the command that repeats the run.
func (o Options) command() string {
	command := fmt.Sprintf("go run ./proof torture --seed %d --duration %v --faults %s", o.Seed, o.Duration,
		strings.Join(o.Faults, ","))
	if o.Pause != DefaultPause {
		command += fmt.Sprintf(" --pause %v", o.Pause)
	}
	if o.Poll != DefaultPoll {
		command += fmt.Sprintf(" --poll %v", o.Poll)
	}
	if o.Workers != defaultWorkers {
		command += fmt.Sprintf(" --workers %d", o.Workers)
	}
	if o.SQLWorkers != defaultSQLWorkers && !o.GoOnly {
		command += fmt.Sprintf(" --sql-workers %d", o.SQLWorkers)
	}
	if o.GoOnly {
		command += " --go-only"
	}
	if o.Rows > 0 {
		command += fmt.Sprintf(" --rows %d", o.Rows)
	}
	if o.OldRevision != "" {
		command += " --old " + o.OldRevision
	}
	return command
}

// Err is an [ErrViolated] if an invariant was broken or anything else went wrong that must not.
func (r *Report) Err() error {
	if len(r.Found) == 0 && len(r.Failures) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d kinds of violations, %d other failures; repeat with: %s", ErrViolated, len(r.Violations),
		len(r.Failures), r.Repeat)
}

// Write prints the report for people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %v: %d rows, %d claims, %d redeliveries, %d claims reaped, %d stale handlers, %d "+
		"processes and %d servers ended\n",
		r.Seed, r.Duration.Round(time.Second), r.Rows, r.Claims, r.Redeliveries, r.Reaped, r.Refused, r.ProcessesEnded,
		r.Outages)
	fmt.Fprintf(&b, "lost %d, double settles %d, order violations %d, early timers %d; drained in %v\n",
		r.Lost, r.DoubleSettles, r.OrderViolations, r.EarlyTimers, r.DrainedIn.Round(time.Millisecond))
	a := r.Announcers
	fmt.Fprintf(&b, "announcers awake %d times, %.0f %% of the time, %d broke off; %d waits judged, the longest %v; "+
		"the server answered late %d times\n",
		a.Awake, 100*a.Share, a.Broke, a.Waits, a.Longest.Round(time.Millisecond), a.Still)
	for _, name := range slices.Sorted(maps.Keys(r.Crews)) {
		c := r.Crews[name]
		fmt.Fprintf(&b, "%s: %d rows enqueued, handled %v\n", name, c.Enqueued, c.Handled)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Log.Subscriptions)) {
		s := r.Log.Subscriptions[name]
		fmt.Fprintf(&b, "log, %s: %d messages, %d handled, %d dead letters, %d lost and said so, %d were parked; "+
			"%d repeats, %d pages dropped\n", name, s.Messages, s.Handled, s.Dead, s.Lost, s.Parked, s.Repeated,
			s.Dropped)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		f := r.Faults[name]
		fmt.Fprintf(&b, "  %-20s %3d strikes, recovery p50 %v, max %v", name, f.Strikes,
			f.RecoveryP50.Round(time.Millisecond), f.RecoveryMax.Round(time.Millisecond))
		for _, failure := range f.Errors {
			fmt.Fprintf(&b, "; a strike failed: %s", failure)
		}
		b.WriteByte('\n')
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "  SKIPPED %s: %s\n", s.Fault, s.Reason)
	}
	for _, s := range r.NotStruck {
		fmt.Fprintf(&b, "  NOT STRUCK %s: %s\n", s.Fault, s.Reason)
	}
	if r.Overtime > 0 {
		fmt.Fprintf(&b, "  went on for %v beyond its time, so that every fault could strike\n",
			r.Overtime.Round(time.Second))
	}
	r.writeFound(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeFound(b *strings.Builder) {
	for _, v := range r.Found {
		fmt.Fprintf(b, "VIOLATED %s\n", v)
		for _, l := range v.History {
			fmt.Fprintf(b, "    %s\n", l)
		}
	}
	for _, failure := range r.Failures {
		fmt.Fprintf(b, "FAILED %s\n", failure)
	}
	if r.Err() != nil {
		fmt.Fprintf(b, "repeat with: %s\n", r.Repeat)
	}
}
