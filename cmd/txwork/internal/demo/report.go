package demo

import (
	"fmt"
	"io"
)

// A Report is a run's result and how it came about.
type Report struct {
	Result
	RolledBack int // transactions rolled back on purpose
	Retried    bool
	Frozen     Fault
	Killed     Fault
}

// Write prints the report in a few lines.
func (r Report) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, `
%s committed, each with a message in the same transaction: a third each through pgx, database/sql, sqlx.
%s
%s was frozen after %s, with %s. It was continued %.1f s later, when others had delivered what
  its handlers held: %s refused, and what these had written was rolled back.
%s was killed after %s, with %s. The reaper had recovered them %.1f s later.

enqueued              %8d
applied               %8d
lost                  %8d
applied twice         %8d
redelivered           %8d
rolled back, yet seen %8d
stale settles refused %8d
seconds               %8.2f
books                 %8s
`,
		count(int(r.Enqueued), "transfer"), r.rollbacks(),
		r.Frozen.Worker, count(r.Frozen.Applied, "message"), count(r.Frozen.Claims, "claim"), r.Frozen.After.Seconds(),
		count(r.Frozen.Refused, "late settle"),
		r.Killed.Worker, count(r.Killed.Applied, "message"), count(r.Killed.Claims, "claim"), r.Killed.After.Seconds(),
		r.Enqueued, r.Applied, r.Lost, r.AppliedTwice, r.Redelivered, r.RolledBackSeen, r.StaleSettlesRefused,
		r.Seconds, map[bool]string{true: "balance", false: "DIFFER"}[r.Balanced])
	return err
}

func (r Report) rollbacks() string {
	if r.Retried {
		return fmt.Sprintf("%d were rolled back on purpose at first, after the message was written, and then made "+
			"for real.", r.RolledBack)
	}
	return fmt.Sprintf("%d more were rolled back on purpose, after the message was written.", r.RolledBack)
}
