package webui

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
)

// functions are those of the templates.
var functions = template.FuncMap{
	"count":    number[int64],
	"countOf":  number[int],
	"text":     func(d operate.Document) string { return string(d) },
	"plain":    func(n int) string { return number(n, false) },
	"utc":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" },
	"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"rough":    rough,
	"since":    since,
	"seconds":  func(s float64) string { return rough(postgres.Seconds(s)) },
	"name":     nameOf,
	"visible":  postgres.Visible,
	"clip":     clip,
	"evidence": evidence,
	"query":    query,
	"quantile": percentiles,
	"bytes":    size[int],
	"bytes64":  size[int64],
	"join":     func(status int16) string { return operate.JoinStates[status] },
	"lanes":    lanesOf,
	"rests":    rests,
	"title":    func(verb string) string { return strings.ToUpper(verb[:1]) + verb[1:] },
	"wakes":    newWakes,
	"state":    stateName,
	"states":   func() []stateLabel { return stateLabels },
}

// wakes is a table of alarms.
type wakes struct {
	Root, Label string
	Now         time.Time
	Alarms      []survey.Alarm
}

func newWakes(root, label string, now time.Time, all []survey.Alarm) wakes {
	return wakes{root, label, now, all}
}

// number formats a number of rows, which is a lower bound if there may be more.
func number[T int | int64](n T, atLeast bool) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if atLeast {
		return "≥ " + digits
	}
	return digits
}

// rough formats a duration in its largest unit.
func rough(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + rough(-d)
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d/day))
}

// since says how long before or after now a time is.
func since(t, now time.Time) string {
	if t.After(now) {
		return "in " + rough(t.Sub(now))
	}
	return rough(now.Sub(t)) + " ago"
}

// rests says how long the destination of a topic is left alone.
func rests(seconds float64) string {
	if seconds <= 0 {
		return "until the next probe"
	}
	return "for " + rough(postgres.Seconds(seconds)) + " more"
}

// nameOf is how a name is shown: in full, and two different ones differently.
func nameOf(name string) string {
	if name == "" {
		return "(none)"
	}
	return postgres.Name(name)
}

// stateName is what people call the state of one row; gone is one that was deleted.
func stateName(state string) string {
	if state == string(workqueue.StateFailed) {
		return "dead letter"
	}
	if l, ok := labelOf(state); ok {
		return strings.ToLower(l.Label)
	}
	return strings.ReplaceAll(state, "_", " ")
}

// clip shortens a text to one line of at most so many characters.
func clip(most int, text string) string {
	line, _, more := strings.Cut(text, "\n")
	if all := []rune(line); len(all) > most {
		line, more = string(all[:most-1]), true
	}
	if more {
		line += "…"
	}
	return postgres.Visible(line)
}

// evidence formats a value of a finding.
func evidence(f doctor.Field) string {
	switch v := f.Value.(type) {
	case float64:
		if strings.HasSuffix(f.Name, "_seconds") {
			return rough(postgres.Seconds(v))
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	case []string:
		return postgres.Visible(strings.Join(v, ", "))
	}
	return postgres.Visible(fmt.Sprint(f.Value))
}

// query makes the query of an address from alternating names and values, without empty ones.
func query(pairs ...string) template.URL {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	return encoded(values)
}

// encoded is the query of an address, or nothing.
func encoded(values url.Values) template.URL {
	if len(values) == 0 {
		return ""
	}
	return template.URL("?" + values.Encode()) // so nothing of it can leave the attribute
}

// size formats a number of bytes.
func size[T int | int64](n T) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10_000_000:
		return fmt.Sprintf("%d kB", n/1000)
	}
	return fmt.Sprintf("%d MB", n/1_000_000)
}
