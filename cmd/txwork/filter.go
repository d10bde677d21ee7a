package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// keyColumns are the columns that --key compares, as far as a table has them.
var keyColumns = []string{"key", "concurrency_key", "unique_key", "message_id", "name"}

// A filter is the flags that narrow down the rows of a state. Commands that list rows and commands that change rows use
// it.
type filter struct {
	kind, topic, queue, consumer, key string
	text                              string // found in the last error
	olderThan, newerThan              age
}

func (f *filter) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.kind, "kind", "", "only jobs of this kind")
	flags.StringVar(&f.queue, "queue", "", "only jobs of this queue")
	flags.StringVar(&f.consumer, "consumer", "", "only messages received by this consumer")
	flags.StringVar(&f.topic, "topic", "", "only rows of this topic")
	flags.StringVar(&f.key, "key", "", "only rows with this key: that of a timer or schedule, the ordered or unique "+
		"key, the id of a received message")
	flags.StringVar(&f.text, "error", "", "only rows whose last error contains this `text`")
	flags.Var(&f.olderThan, "older-than", "only rows that ended, or that live and were written, longer ago than this")
	flags.Var(&f.newerThan, "newer-than", "only rows that ended, or that live and were written, since this long ago")
}

// given tells whether the filter excludes any rows.
func (f filter) given() bool { return f != filter{} }

// about names the part of a table that the filter's names select.
func (f filter) about(table string) string {
	return names(given(table, f.kind, f.queue, f.consumer, f.topic)...)
}

// check refuses a filter that no row could match.
func (f filter) check() error {
	if f.olderThan.given && f.newerThan.given && f.olderThan.Duration >= f.newerThan.Duration {
		return usagef("no row is older than %v and newer than %v", f.olderThan.Duration, f.newerThan.Duration)
	}
	return nil
}

// condition returns the filter as SQL over rows r of a table. Its parameters are numbered after the given number of
// others.
func (f filter) condition(l layout, others int) (text string, args []any, err error) {
	c := conditions{layout: l, others: others}
	for _, about := range []struct{ name, value string }{{"kind", f.kind}, {"queue", f.queue}, {"topic", f.topic},
		{"consumer", f.consumer}} {
		if about.value == "" {
			continue
		}
		if !l.has(about.name) {
			return "", nil, usagef("--%s: %s has no column %s", about.name, l.table, about.name)
		}
		c.add("r.%s = %s", column{Name: about.name}.quoted(), c.param(about.value, "text"))
	}
	if err := c.key(f.key); err != nil {
		return "", nil, err
	}
	c.failures(f)
	if len(c.all) == 0 {
		return "true", nil, nil
	}
	return "coalesce(" + strings.Join(c.all, " AND ") + ", false)", c.args, nil
}

// conditions are the parts of a filter with their parameters. A row has to meet all of them.
type conditions struct {
	layout layout
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

// key compares each of the table's columns that hold keys.
func (c *conditions) key(key string) error {
	if key == "" {
		return nil
	}
	var either []string
	value := c.param(key, "text")
	for _, name := range keyColumns {
		if c.layout.has(name) {
			either = append(either, fmt.Sprintf("r.%s = %s", column{Name: name}.quoted(), value))
		}
	}
	if len(either) == 0 {
		return usagef("--key: %s has none of the columns %s", c.layout.table, strings.Join(keyColumns, ", "))
	}
	c.add("(%s)", strings.Join(either, " OR "))
	return nil
}

// failures adds the conditions on a row's error and its age.
func (c *conditions) failures(f filter) {
	const since = "coalesce(r.failed_at, r.completed_at, r.created_at)"
	if f.text != "" {
		c.add("strpos(r.last_error, %s) > 0", c.param(f.text, "text"))
	}
	if f.olderThan.given {
		c.add("%s < now() - %s * interval '1 second'", since, c.param(f.olderThan.Seconds(), "float8"))
	}
	if f.newerThan.given {
		c.add("%s >= now() - %s * interval '1 second'", since, c.param(f.newerThan.Seconds(), "float8"))
	}
}

// has tells whether the domain's part of the table has the column.
func (l layout) has(name string) bool {
	return slices.ContainsFunc(l.plain, func(c column) bool { return c.Name == name })
}
