package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// keyColumns are what --key compares, of those that a table has.
var keyColumns = []string{"key", "gate_key", "unique_key", "message_id", "name"}

// A filter is the flags that narrow down the rows of a state, for commands that list rows and for those that change
// them.
type filter struct {
	kind, topic, queue, consumer, key string
	text                              string // in the last error
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

// given tells whether the filter leaves anything out.
func (f filter) given() bool { return f != filter{} }

// check refuses what no table could answer.
func (f filter) check() error {
	if f.olderThan.given && f.newerThan.given && f.olderThan.Duration >= f.newerThan.Duration {
		return usagef("no row is older than %v and newer than %v", f.olderThan.Duration, f.newerThan.Duration)
	}
	return nil
}

// condition is the filter on rows r of a table, whose parameters follow the given number of others.
func (f filter) condition(l layout, others int) (text string, args []any, err error) {
	var all []string
	param := func(value any, kind string) string {
		args = append(args, value)
		return fmt.Sprintf("$%d::%s", others+len(args), kind)
	}
	for _, c := range []struct{ name, value string }{{"kind", f.kind}, {"queue", f.queue}, {"topic", f.topic},
		{"consumer", f.consumer}} {
		if c.value == "" {
			continue
		}
		if !l.has(c.name) {
			return "", nil, usagef("--%s: %s has no column %s", c.name, l.table, c.name)
		}
		all = append(all, fmt.Sprintf("r.%s = %s", column{Name: c.name}.quoted(), param(c.value, "text")))
	}
	if f.key != "" {
		var either []string
		value := param(f.key, "text")
		for _, name := range keyColumns {
			if l.has(name) {
				either = append(either, fmt.Sprintf("r.%s = %s", column{Name: name}.quoted(), value))
			}
		}
		if len(either) == 0 {
			return "", nil, usagef("--key: %s has none of the columns %s", l.table, strings.Join(keyColumns, ", "))
		}
		all = append(all, "("+strings.Join(either, " OR ")+")")
	}
	if f.text != "" {
		all = append(all, fmt.Sprintf("strpos(r.last_error, %s) > 0", param(f.text, "text")))
	}
	const since = "coalesce(r.failed_at, r.completed_at, r.created_at)"
	if f.olderThan.given {
		all = append(all, fmt.Sprintf("%s < now() - %s * interval '1 second'", since, param(f.olderThan.Seconds(),
			"float8")))
	}
	if f.newerThan.given {
		all = append(all, fmt.Sprintf("%s >= now() - %s * interval '1 second'", since, param(f.newerThan.Seconds(),
			"float8")))
	}
	if len(all) == 0 {
		return "true", nil, nil
	}
	return "coalesce(" + strings.Join(all, " AND ") + ", false)", args, nil
}

// has tells whether the table has a column of the domain's.
func (l layout) has(name string) bool {
	return slices.ContainsFunc(l.plain, func(c column) bool { return c.Name == name })
}
