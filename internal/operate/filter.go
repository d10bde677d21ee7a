package operate

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// KeyColumns are the columns that a filter by key compares, as far as a table has them.
var KeyColumns = []string{"key", "concurrency_key", "unique_key", "message_id", "name"}

// A Filter narrows down the rows of a state. An empty field excludes none.
type Filter struct {
	Kind         string `json:"kind,omitempty"`
	Topic        string `json:"topic,omitempty"`
	Queue        string `json:"queue,omitempty"`
	Consumer     string `json:"consumer,omitempty"`
	Subscription string `json:"subscription,omitempty"` // of a parked message of a log
	Key          string `json:"key,omitempty"`          // in any of the KeyColumns
	Priority     int16  `json:"priority,omitempty"`     // of a job, from 1, the most urgent
	Error        string `json:"error,omitempty"`        // part of the last error
	OlderThan    Age    `json:"older_than,omitzero"`    // since they ended or, if they live, were written
	NewerThan    Age    `json:"newer_than,omitzero"`

	// Among are the parts of the table whose rows there are, see [Layout.DividedBy]. Nil: all. It is no wish of whoever
	// asks, but what they may see.
	Among []string `json:"among,omitzero"`

	at time.Time // when ages were looked at; zero: now
}

// An Age is a length of time, if it was given.
type Age struct {
	Given bool
	time.Duration
}

// MarshalText writes an age as Go writes durations.
func (a Age) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (a *Age) UnmarshalText(text []byte) (err error) {
	a.Given = true
	a.Duration, err = time.ParseDuration(string(text))
	return err
}

// Given tells whether the filter excludes any rows.
func (f Filter) Given() bool {
	f.Among = nil
	return !reflect.ValueOf(f).IsZero()
}

// Check refuses a filter that no row could match.
func (f Filter) Check() error {
	if f.OlderThan.Given && f.NewerThan.Given && f.OlderThan.Duration >= f.NewerThan.Duration {
		return Refusal{Problem: fmt.Sprintf("no row is older than %v and newer than %v", f.OlderThan.Duration,
			f.NewerThan.Duration)}
	}
	return nil
}

// condition returns the filter as SQL over rows r of a listing: what bounds the part of the index that has to be read,
// and what tells of each row there whether it matches. The parameters are numbered after the given number of others.
func (f Filter) condition(q listQuery, others int) (bounds, matches string, args []any, err error) {
	c := conditions{layout: q.layout, others: others}
	for _, about := range []struct{ name, value string }{{"kind", f.Kind}, {"queue", f.Queue}, {"topic", f.Topic},
		{"consumer", f.Consumer}, {"subscription", f.Subscription}} {
		if about.value == "" {
			continue
		}
		if !c.layout.Has(about.name) {
			return "", "", nil, Refusal{about.name, fmt.Sprintf(": %s has no column %s", c.layout.Table, about.name)}
		}
		c.add("r.%s = %s", Column{Name: about.name}.Quoted(), c.param(about.value, "text"))
	}
	if f.Among != nil {
		among, err := c.layout.among(f.Among, func(names []string) string { return c.param(names, "text[]") })
		if err != nil {
			return "", "", nil, err
		}
		c.add("%s", among)
	}
	if f.Priority != 0 {
		if !c.layout.Has("priority") {
			return "", "", nil, Refusal{"priority", fmt.Sprintf(": %s has no column priority", c.layout.Table)}
		}
		c.add("r.priority = %s", c.param(f.Priority, "smallint"))
	}
	key, err := c.key(f.Key)
	if err != nil {
		return "", "", nil, err
	}
	bounds = q.withKey(key)
	if f.Error != "" {
		c.add("strpos(r.last_error, %s) > 0", c.param(f.Error, "text"))
	}
	times := c.ages(f, q.sinceColumn())
	if q.since != "" {
		bounds += strings.Join(append([]string{""}, times...), " AND ")
	} else {
		c.all = append(c.all, times...)
	}
	if q.few != "" {
		c.all = append(c.all, q.few)
	}
	matches = "true"
	if len(c.all) > 0 {
		matches = "coalesce(" + strings.Join(c.all, " AND ") + ", false)"
	}
	return bounds, matches, c.args, nil
}

// conditions are the parts of a filter with their parameters. A row has to meet all of them.
type conditions struct {
	layout Layout
	others int // number of parameters before these
	all    []string
	args   []any
}

func (c *conditions) add(format string, parts ...any) {
	c.all = append(c.all, fmt.Sprintf(format, parts...))
}

func (c *conditions) param(value any, kind string) string {
	c.args = append(c.args, value)
	return fmt.Sprintf("$%d::%s", c.others+len(c.args), kind)
}

// key compares each of the table's columns that hold keys, and returns the parameter.
func (c *conditions) key(key string) (value string, err error) {
	if key == "" {
		return "", nil
	}
	var either []string
	value = c.param(key, "text")
	for _, name := range KeyColumns {
		if c.layout.Has(name) {
			either = append(either, fmt.Sprintf("r.%s = %s", Column{Name: name}.Quoted(), value))
		}
	}
	if len(either) == 0 {
		return "", Refusal{"key", fmt.Sprintf(": %s has none of the columns %s", c.layout.Table,
			strings.Join(KeyColumns, ", "))}
	}
	c.add("(%s)", strings.Join(either, " OR "))
	return value, nil
}

// ages returns the conditions on the time since which a row has been in its state.
func (c *conditions) ages(f Filter, since string) (texts []string) {
	now := "now()"
	if !f.at.IsZero() {
		now = moment(f.at)
	}
	for _, age := range []struct {
		Age
		is string
	}{{f.OlderThan, "<"}, {f.NewerThan, ">="}} {
		if age.Given {
			texts = append(texts, fmt.Sprintf("r.%s %s %s - %s * interval '1 second'", since, age.is, now,
				c.param(age.Seconds(), "float8")))
		}
	}
	return texts
}
