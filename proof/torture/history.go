//go:build unix

package torture

import (
	"fmt"
	"time"
)

// An Outcome is the result of a producer's transaction.
type Outcome uint8

const (
	Maybe      Outcome = iota // the answer to the commit was lost
	Committed                 // the server confirmed it
	RolledBack                // it certainly did not commit
)

// A History is everything that the records contain about one row.
type History struct {
	Table   string     // without its schema
	ID      string     // of the row; empty if there is none
	Name    string     // name that its producer gave it
	Key     string     // key by which it is ordered; empty if there is none
	Asked   []Outcome  // outcomes of the transactions that wrote it
	AskedBy string     // the key that its producer gave it; empty if there is none
	Changes []Change   // in their order
	Runs    []Handling // of its handler
	Effects []Effect   // written by its handler in the transaction of its settle
}

// A Change is one version of the row, as it was committed.
type Change struct {
	Seq       int64
	Op        byte   // I, U or D; F is the row that the table contains at the end
	OldStatus int16  // -1 for an insert
	OldToken  string // empty if there was none
	New       State
	App       string // the process of the run that made it
	XID       int64
	TxnAt     time.Time // the transaction's now(), by the server's clock, like all times of a State
	At        time.Time // clock_timestamp() in the trigger, converted to the clock of the processes
	Committed time.Time // by the same clock; zero if unknown, for example if the server does not track it
	step      int       // step of the server's clock
}

// A State is the content of a row after a change.
type State struct {
	Status     int16
	Waiting    bool
	Cancelled  bool
	Token      string // empty if there is none
	Attempts   int
	Max        int
	Due        time.Time
	Fire       time.Time // nominal time, of timers
	Locked     time.Time // zero unless in progress
	Generation int       // of timers
}

func (s State) equal(o State) bool {
	times := s.Due.Equal(o.Due) && s.Fire.Equal(o.Fire) && s.Locked.Equal(o.Locked)
	s.Due, s.Fire, s.Locked = o.Due, o.Fire, o.Locked
	return times && s == o
}

const (
	ready      = 0
	inProgress = 1
	done       = 2
	failed     = 3
)

// A Handling is one call of a handler.
type Handling struct {
	App     string
	Attempt int
	Due     time.Time // when the attempt became due; zero if the handler does not know
	Mode    string
	Start   time.Time
	End     time.Time // zero if the process died before it
	Result  string
	Told    string // name in the payload that it was given
}

// done tells whether the handler had reported success by then.
func (r Handling) done(by time.Time) bool {
	return r.Result == resultOK && !r.End.IsZero() && !r.End.After(by)
}

// hadEffect tells whether the handler wrote something that has committed, if its row was settled by it. The inbox
// commits after its handler, which therefore says that it was successful.
func (r Handling) hadEffect() bool {
	return r.Result == resultTx || r.Mode == modeTx && r.Result == resultOK
}

// Results of a Handling.
const (
	resultTx    = "settled in its transaction"
	resultOK    = "ok"
	resultError = "error"
	resultPanic = "panic"
)

// An Effect is what a handler wrote in the transaction that settles its row.
type Effect struct {
	XID     int64
	App     string
	Attempt int
}

// text returns the whole history, one line for each event.
func (h *History) text() []string {
	lines := []string{fmt.Sprintf("%s %s name=%s key=%q asked=%v", h.Table, h.ID, h.Name, h.Key, h.Asked)}
	for _, c := range h.Changes {
		lines = append(lines, c.String())
	}
	for _, r := range h.Runs {
		lines = append(lines, r.String())
	}
	for _, e := range h.Effects {
		lines = append(lines, fmt.Sprintf("effect of attempt %d by %s in transaction %d", e.Attempt, e.App, e.XID))
	}
	return lines
}

func (o Outcome) String() string { return [...]string{"maybe", "committed", "rolled back"}[o] }

const clockLayout = "15:04:05.000000"

func (c Change) String() string {
	s := c.New
	line := fmt.Sprintf("%s #%d %c %d→%d attempts %d/%d token %s→%s due %s", c.At.Format(clockLayout), c.Seq, c.Op,
		c.OldStatus, s.Status, s.Attempts, s.Max, short(c.OldToken), short(s.Token), s.Due.Format(clockLayout))
	if c.Op == 'F' {
		return fmt.Sprintf("in its table: status %d attempts %d/%d token %s", s.Status, s.Attempts, s.Max,
			short(s.Token)) + s.marks()
	}
	return line + s.marks() + fmt.Sprintf(" by %s in transaction %d", c.App, c.XID)
}

// marks describes what only some rows have.
func (s State) marks() (marks string) {
	if s.Status == inProgress {
		marks += " lease until " + s.Locked.Format(clockLayout)
	}
	if s.Waiting {
		marks += " waiting"
	}
	if s.Cancelled {
		marks += " cancelled"
	}
	return marks
}

func (r Handling) String() string {
	end := "never ended"
	if !r.End.IsZero() {
		end = "ended " + r.End.Format(clockLayout) + ": " + r.Result
	}
	return fmt.Sprintf("%s handler (%s) of attempt %d by %s, %s", r.Start.Format(clockLayout), r.Mode, r.Attempt, r.App,
		end)
}

// short shortens a token so that it still can be told from others.
func short(token string) string {
	if token == "" {
		return "-"
	}
	return token[max(0, len(token)-6):]
}
