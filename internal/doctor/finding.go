package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// A Severity says how soon somebody has to act.
type Severity string

const (
	Critical Severity = "critical" // work stands still, or data is in danger
	Warning  Severity = "warning"  // something is slower than it should be, or will be critical
)

// rank orders severities, the worst first.
func (s Severity) rank() int {
	if s == Critical {
		return 0
	}
	return 1
}

// A Finding is one thing that is wrong.
type Finding struct {
	Code     string     `json:"code"`            // of the check, such as expired-leases
	Severity Severity   `json:"severity"`        // critical or warning
	Title    string     `json:"title"`           // one line
	Table    string     `json:"table,omitempty"` // without its schema; empty where it concerns no single table
	Evidence []Evidence `json:"evidence"`        // each an object: what was seen of one row, session or key; lengths of time are in seconds and named so
	Meaning  string     `json:"meaning"`         // what it means for the users of the system
	Remedy   Remedy     `json:"remedy"`          // what mends it: commands and sql are alternatives
	Fixable  bool       `json:"fixable"`         // --fix may run the SQL of the remedy
}

// A Remedy mends a finding. Its commands and its SQL are alternatives where it has both.
type Remedy struct {
	Do       string   `json:"do"`       // in words
	Commands []string `json:"commands"` // of a shell
	SQL      []string `json:"sql"`      // statements, to be run in this order and not in one transaction
}

// Evidence is what was seen of one row, session or key. It is an object in JSON, in the order of its fields.
type Evidence []Field

// A Field of evidence. The name of a length of time ends in _seconds.
type Field struct {
	Name  string
	Value any // a string, an int64, a float64 or a []string
}

// field makes evidence of names and values in turn; what is empty is left out.
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

// longestEvidence bounds a text that comes from a row.
const longestEvidence = 200

func bounded(s string) string {
	if r := []rune(s); len(r) > longestEvidence {
		return string(r[:longestEvidence-1]) + "…"
	}
	return s
}

// MarshalJSON writes an object.
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

// Get is the value of a field; nil without it.
func (e Evidence) Get(name string) any {
	for _, f := range e {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// Skipped is what could not be looked at.
type Skipped struct {
	Check  string `json:"check"`            // its code
	Table  string `json:"table,omitempty"`  // empty where it concerns no single table
	Reason string `json:"reason"`           // why it was not looked at
	Remedy string `json:"remedy,omitempty"` // what lets it be looked at
}
