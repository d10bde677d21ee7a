//go:build unix

package torture

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// A LogRecord is everything that the records contain about a log.
type LogRecord struct {
	Messages      []LogMessage         // that were committed, in the order of their numbers
	Asked         map[string][]Outcome // outcomes of the transactions that wrote them, by id
	Subscriptions []*SubscriptionRecord
	Stalled       bool // messages were left although nothing moved any more
}

// A LogMessage is a message of the log.
type LogMessage struct {
	Seq     int64
	ID, Key string
	Topic   string
	Created time.Time // by the server's clock
	Hash    int64     // which decides about its lane
}

// A SubscriptionRecord is what the records contain about a subscription.
type SubscriptionRecord struct {
	Name   string
	Lanes  int64
	Topics []string // nil: all
	Runs   map[string][]Handling
	Moves  []Move // of all lanes, in their order
	Parked map[string][]ParkedChange
	Losses []Loss
}

// A Move is a version of a position.
type Move struct {
	Lane       int64
	App        string
	At         time.Time // by the server's clock
	Token      string    // empty if there is none
	Until      time.Time // of the lease; zero if there is none
	Done, Page int64     // Page is 0 if there is none
	Tick, Upto int64
	Attempts   int
}

// A ParkedChange is a version of a parked message.
type ParkedChange struct {
	App       string
	Op        byte
	OldStatus int16
	Status    int16
	Attempts  int
}

// A Loss is what a subscription was said to have passed over in a lane.
type Loss struct {
	Lane           int64
	Messages       int64
	Oldest, Newest time.Time // by the server's clock
}

// A LogVerdict is what the checker concludes about a log.
type LogVerdict struct {
	Messages      int                            `json:"messages"`
	Subscriptions map[string]SubscriptionVerdict `json:"subscriptions"`
}

// A SubscriptionVerdict counts what has become of a subscription's messages.
type SubscriptionVerdict struct {
	Messages int `json:"messages"` // that it has
	Handled  int `json:"handled"`  // in the end
	Dead     int `json:"dead"`     // dead letters
	Lost     int `json:"lost"`     // passed over, and recorded
	Parked   int `json:"parked"`
	Repeated int `json:"repeated"` // calls of a handler beyond the first of a message that was not parked
	Dropped  int `json:"dropped"`  // pages that were not settled to their end
}

// Invariants of a log. I1 and I5 hold for each message and subscription.
const (
	logLost    = "log-lost"    // a message that its subscription has neither handled nor passed
	logSkipped = "log-skipped" // a message that was passed, and neither handled nor recorded as lost
	logOrder   = "log-order"   // a message was handed out before one of its key that comes first had ended
	logRepeat  = "log-repeat"  // a message was handled more often than deaths explain
	logLease   = "log-lease"   // a lane was taken from its owner, or settled by another
	logMade    = "log-made"    // a message that nobody has committed
	logDead    = "log-dead"    // a dead letter without a reason
)

// CheckLog reconciles each message with each subscription.
func CheckLog(r LogRecord, report func(...Violation)) LogVerdict {
	v := LogVerdict{Messages: len(r.Messages), Subscriptions: map[string]SubscriptionVerdict{}}
	written := map[string]*LogMessage{}
	for i := range r.Messages {
		written[r.Messages[i].ID] = &r.Messages[i]
	}
	checkWritten(r, written, report)
	for _, s := range r.Subscriptions {
		c := &logCheck{SubscriptionRecord: s, record: &r, report: report, lost: make([]int64, len(s.Losses))}
		c.moves()
		for i := range r.Messages {
			if m := &r.Messages[i]; s.Topics == nil || slices.Contains(s.Topics, m.Topic) {
				c.message(m)
			}
		}
		for id := range s.Runs {
			if written[id] == nil {
				c.broken(logMade, id, nil, "a handler ran for a message that was never committed")
			}
		}
		v.Subscriptions[s.Name] = c.verdict
	}
	return v
}

// checkWritten compares what was committed with what producers know of their transactions.
func checkWritten(r LogRecord, written map[string]*LogMessage, report func(...Violation)) {
	for _, id := range slices.Sorted(maps.Keys(r.Asked)) {
		asked, m := r.Asked[id], written[id]
		switch {
		case m == nil && slices.Contains(asked, Committed):
			report(Violation{logLost, logTable, id, "its transaction has committed, and there is no message",
				[]string{fmt.Sprint("asked ", asked)}})
		case m != nil && !slices.ContainsFunc(asked, func(o Outcome) bool { return o != RolledBack }):
			report(Violation{logMade, logTable, id, "its transaction was rolled back, and there is a message",
				[]string{fmt.Sprint("asked ", asked)}})
		}
	}
	for id := range written {
		if r.Asked[id] == nil {
			report(Violation{logMade, logTable, id, "nobody was about to commit it", []string{id}})
		}
	}
}

// A logCheck checks one subscription.
type logCheck struct {
	*SubscriptionRecord
	record  *LogRecord
	report  func(...Violation)
	verdict SubscriptionVerdict
	drops   map[int64][]drop // by lane
	replays map[int64]int
	lost    []int64            // how many messages of each loss are missing
	before  map[string]*before // by key
}

// A drop is a page that its consumer had in hand when it was taken or given back: what was not settled of it may be
// handled again.
type drop struct{ done, page int64 }

// A before is the message of a key that ended last among those that were looked at.
type before struct {
	of    *LogMessage
	ended time.Time
}

func (c *logCheck) broken(invariant, id string, m *LogMessage, format string, args ...any) {
	c.report(Violation{invariant, logTable + " " + c.Name, id, fmt.Sprintf(format, args...), c.text(id, m)})
}

// moves walks through the versions of the positions: only the owner of a lane settles it, and it is taken from an owner
// after the end of its lease only, or by a verb.
func (c *logCheck) moves() {
	c.drops, c.replays, c.before = map[int64][]drop{}, map[int64]int{}, map[string]*before{}
	last, owners := map[int64]*Move{}, map[string]string{}
	for i := range c.Moves {
		m := &c.Moves[i]
		was := last[m.Lane]
		last[m.Lane] = m
		if was == nil {
			continue
		}
		if was.Page > 0 && m.Token != was.Token {
			c.drops[m.Lane] = append(c.drops[m.Lane], drop{was.Done, was.Page})
			c.verdict.Dropped++
		}
		if m.Tick < was.Tick {
			c.replays[m.Lane]++
		}
		c.checkOwner(was, m, owners)
	}
}

func (c *logCheck) checkOwner(was, m *Move, owners map[string]string) {
	owner := owners[was.Token]
	switch {
	case !crewed(m.App): // a verb
	case m.Token == was.Token:
		if m.Token != "" && m.App != owner {
			c.broken(logLease, "", nil, "lane %d of %s was settled by %s: %v", m.Lane, owner, m.App, *m)
		}
	default:
		if was.Until.After(m.At) && (m.Token != "" || m.App != owner) {
			c.broken(logLease, "", nil, "lane %d was taken from %s, whose lease had not ended: %v, then %v", m.Lane,
				owner, *was, *m)
		}
		owners[m.Token] = m.App
	}
}

func (c *logCheck) lane(m *LogMessage) int64 {
	lane := m.Hash % c.Lanes
	if lane < 0 {
		lane = -lane
	}
	return lane
}

// message checks what has become of a message.
func (c *logCheck) message(m *LogMessage) {
	c.verdict.Messages++
	runs, parked := c.Runs[m.ID], c.Parked[m.ID]
	slices.SortFunc(runs, func(a, b Handling) int { return a.Start.Compare(b.Start) })
	for _, r := range runs {
		if r.Told != m.ID {
			c.broken(logMade, m.ID, m, "its handler was given what was written for %q", r.Told)
		}
	}
	if len(parked) > 0 {
		c.verdict.Parked++
	}
	ended, ok := c.end(m, runs, parked)
	c.repeats(m, runs, parked)
	if m.Key != "" {
		c.order(m, runs, ended, ok)
	}
}

// end is when the message has ended first, as its handlers know; false if it has not, or was passed over.
func (c *logCheck) end(m *LogMessage, runs []Handling, parked []ParkedChange) (at time.Time, ok bool) {
	for _, r := range runs {
		if r.Result == resultOK && (!ok || r.End.Before(at)) {
			at, ok = r.End, true
		}
	}
	if ok {
		c.verdict.Handled++
		return at, true
	}
	if n := len(parked); n > 0 && parked[n-1].Status == failed {
		c.verdict.Dead++
		for _, r := range runs {
			if r.Mode == modePermanent && r.Result == resultError {
				return r.End, true
			}
		}
		c.broken(logDead, m.ID, m, "it is a dead letter, and no handler has said so")
		return at, false
	}
	c.missing(m)
	return at, false
}

// missing looks for the loss that a missing message is part of.
func (c *logCheck) missing(m *LogMessage) {
	for i, l := range c.Losses {
		if l.Lane == c.lane(m) && !m.Created.Before(l.Oldest) && !m.Created.After(l.Newest) && c.lost[i] < l.Messages {
			c.lost[i]++
			c.verdict.Lost++
			return
		}
	}
	if c.record.Stalled {
		c.broken(logLost, m.ID, m, "it was left although nothing moved any more")
		return
	}
	c.broken(logSkipped, m.ID, m, "it was passed, and neither handled nor said to be lost")
}

// repeats checks that a message was handled once, and again only if a page with it was not settled to its end, or it
// was parked, or is replayed.
func (c *logCheck) repeats(m *LogMessage, runs []Handling, parked []ParkedChange) {
	lane := c.lane(m)
	most := 1 + c.replays[lane]
	for _, d := range c.drops[lane] {
		if d.done < m.Seq && m.Seq <= d.page {
			most++
		}
	}
	for _, p := range parked {
		if p.Op == 'U' && p.OldStatus == ready && p.Status == inProgress {
			most++
		}
	}
	if len(parked) == 0 {
		c.verdict.Repeated += max(0, len(runs)-1)
	}
	if len(runs) > most {
		c.broken(logRepeat, m.ID, m, "it was handled %d times, which deaths and failures explain %d times", len(runs),
			most)
	}
}

// order checks that no handler began before all messages before it in its key had ended.
func (c *logCheck) order(m *LogMessage, runs []Handling, ended time.Time, ok bool) {
	b := c.before[m.Key]
	if b == nil {
		b = &before{}
		c.before[m.Key] = b
	}
	if b.of != nil && len(runs) > 0 && runs[0].Start.Before(b.ended) {
		c.broken(logOrder, m.ID, m, "of key %s it began at %s, and %s before it ended at %s", m.Key,
			runs[0].Start.Format(clockLayout), b.of.ID, b.ended.Format(clockLayout))
	}
	if ok && ended.After(b.ended) && !c.passedOver(m) {
		b.of, b.ended = m, ended
	}
}

// passedOver tells whether a loss may have had the message, which was then replayed behind others.
func (c *logCheck) passedOver(m *LogMessage) bool {
	return slices.ContainsFunc(c.Losses, func(l Loss) bool {
		return l.Lane == c.lane(m) && !m.Created.Before(l.Oldest) && !m.Created.After(l.Newest)
	})
}

// mostMoves bounds how many versions of a position are shown with a violation.
const mostMoves = 40

// text is what is known of a message: what its handlers did, its parked row, and the versions of its lane that had it
// in hand. Without a message it is the last versions of the positions.
func (c *logCheck) text(id string, m *LogMessage) []string {
	if m == nil {
		return []string{c.Name + " " + id}
	}
	lane := c.lane(m)
	lines := []string{fmt.Sprintf("message %d %s key=%q topic=%s written %s, lane %d, asked=%v", m.Seq, m.ID, m.Key,
		m.Topic, m.Created.Format(clockLayout), lane, c.record.Asked[m.ID])}
	for _, r := range c.Runs[id] {
		lines = append(lines, r.String())
	}
	for _, p := range c.Parked[id] {
		lines = append(lines, fmt.Sprintf("parked %c %d→%d attempts %d by %s", p.Op, p.OldStatus, p.Status, p.Attempts,
			p.App))
	}
	shown := 0
	for _, v := range c.Moves {
		if v.Lane == lane && v.Done < m.Seq && m.Seq <= v.Page && shown < mostMoves {
			shown++
			lines = append(lines, v.String())
		}
	}
	for _, l := range c.Losses {
		lines = append(lines, fmt.Sprintf("%d lost in lane %d, written between %s and %s", l.Messages, l.Lane,
			l.Oldest.Format(clockLayout), l.Newest.Format(clockLayout)))
	}
	return lines
}

func (m Move) String() string {
	return fmt.Sprintf("%s lane %d behind tick %d, batch up to %d, done %d, page up to %d, claims %d, token %s until %s "+
		"by %s",
		m.At.Format(clockLayout), m.Lane, m.Tick, m.Upto, m.Done, m.Page, m.Attempts, short(m.Token),
		m.Until.Format(clockLayout), m.App)
}
