package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// A Severity says how urgent a finding is.
type Severity string

const (
	Critical Severity = "critical" // work stands still, or data is in danger
	Warning  Severity = "warning"  // something is slower than it should be, or will be critical
)

// rank orders severities, the most severe first.
func (s Severity) rank() int {
	if s == Critical {
		return 0
	}
	return 1
}

// A Finding is one thing that is wrong.
type Finding struct {
	Code     string     `json:"code"`            // code of the check, such as expired-leases
	Severity Severity   `json:"severity"`        // critical or warning
	Title    string     `json:"title"`           // one line
	Table    string     `json:"table,omitempty"` // without its schema; empty if it concerns no single table
	Evidence []Evidence `json:"evidence"`        // objects with what was seen of a row, session or key; durations are in seconds
	Meaning  string     `json:"meaning"`         // what it means for the users of the system
	Remedy   Remedy     `json:"remedy"`          // what fixes it; commands and sql are alternatives
	Fixable  bool       `json:"fixable"`         // --fix may run the SQL of the remedy
}

// A Remedy fixes a finding. If it has both commands and SQL, they are alternatives.
type Remedy struct {
	Do       string   `json:"do"`       // what to do, in words
	Commands []string `json:"commands"` // shell commands
	SQL      []string `json:"sql"`      // statements, to be run in this order and not in one transaction
}

// Evidence is what was seen of one row, session or key. In JSON it is an object whose fields keep their order.
type Evidence []Field

// A Field is one value of evidence. The name of a duration ends in _seconds.
type Field struct {
	Name  string
	Value any // a string, an int64, a float64 or a []string
}

// evidence makes evidence from alternating names and values, and leaves out empty values.
func evidence(pairs ...any) Evidence {
	e := Evidence{}
	for i := 0; i+1 < len(pairs); i += 2 {
		value := pairs[i+1]
		switch v := value.(type) {
		case string:
			if v == "" {
				continue
			}
			value = bounded(v)
		case *string:
			if v == nil || *v == "" {
				continue
			}
			value = bounded(*v)
		case time.Duration:
			value = v.Round(time.Millisecond).Seconds()
		case int:
			value = int64(v)
		case int32:
			value = int64(v)
		}
		e = append(e, Field{pairs[i].(string), value})
	}
	return e
}

// longestEvidence bounds texts that come from rows.
const longestEvidence = 200

func bounded(s string) string {
	if r := []rune(s); len(r) > longestEvidence {
		return string(r[:longestEvidence-1]) + "…"
	}
	return s
}

// MarshalJSON writes an object whose fields keep their order.
func (e Evidence) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range e {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := json.Marshal(f.Value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", f.Name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Get returns the value of a field, or nil if it is missing.
func (e Evidence) Get(name string) any {
	for _, f := range e {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// Skipped is a check that was not made, or not in full: what it looks for may be there.
type Skipped struct {
	Check   string     `json:"check"`             // code of the check
	Table   string     `json:"table,omitempty"`   // empty if it concerns no single table
	Reason  string     `json:"reason"`            // why it was not made
	Remedy  string     `json:"remedy,omitempty"`  // what makes it possible
	Holders []Evidence `json:"holders,omitempty"` // the sessions whose lock was in the way; durations are in seconds
}

func (s Skipped) same(o Skipped) bool {
	return s.Check == o.Check && s.Table == o.Table && s.Reason == o.Reason
}
