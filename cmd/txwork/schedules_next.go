package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/schedule"
)

const (
	defaultNext = 5
	maxNext     = 1000
)

func newSchedulesNextCommand(a *app) *cobra.Command {
	var zone string
	var from moment
	var count int
	cmd := newCommand("next EXPR [--zone ZONE]", "Show when an expression is due", cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.StringVar(&zone, "zone", "UTC", "IANA zone in which EXPR is read")
	flags.IntVarP(&count, "count", "n", defaultNext, "so many times")
	flags.Var(&from, "from", "times after this one, as RFC 3339 has it (default: now)")
	asJSON := jsonFlag(cmd, upcoming{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if count < 1 || count > maxNext {
			return usagef("--count is %d, it must be between 1 and %d", count, maxNext)
		}
		s, err := schedule.Parse(args[0], zone)
		if err != nil {
			return usageError{err}
		}
		if from.IsZero() {
			from.Time = time.Now()
		}
		p := upcoming{Expr: s.String(), Zone: s.Zone(), Next: []occurrence{}}
		for at, ok := s.Next(from.Time); ok && len(p.Next) < count; at, ok = s.Next(at) {
			p.Next = append(p.Next, newOccurrence(at))
		}
		if *asJSON {
			return a.printJSON(p)
		}
		return a.printUpcoming(p)
	}
	return cmd
}

// upcoming is what next prints.
type upcoming struct {
	Expr string       `json:"expr"` // the expression as it was parsed
	Zone string       `json:"zone"` // IANA time zone
	Next []occurrence `json:"next"` // its next occurrences
}

// An occurrence is a time as the zone's clock shows it, and as it is.
type occurrence struct {
	Local  string    `json:"local"`  // by the clocks of the zone, without an offset
	Day    string    `json:"day"`    // day of the week, such as Mon
	Offset string    `json:"offset"` // offset of the zone from UTC at that time
	UTC    time.Time `json:"utc"`    // the same time
}

// newOccurrence leaves out the fractions that an interval has from now.
func newOccurrence(at time.Time) occurrence {
	return occurrence{at.Format("2006-01-02T15:04:05"), at.Format("Mon"), at.Format("-07:00"),
		at.UTC().Truncate(time.Second)}
}

func (a *app) printUpcoming(p upcoming) error {
	g := newGrid(a.stdout, "LOCAL", "OFFSET", "UTC")
	for _, o := range p.Next {
		g.add(o.Day+" "+o.Local, o.Offset, o.UTC.Format(time.RFC3339))
	}
	return g.flush()
}
