package main

import (
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/internal/operate"
)

// addFilterFlags adds the flags that narrow down the rows of a state. Commands that list rows and commands that change
// rows have them.
func addFilterFlags(flags *pflag.FlagSet, f *operate.Filter) {
	flags.StringVar(&f.Kind, "kind", "", "only jobs of this kind")
	flags.StringVar(&f.Queue, "queue", "", "only jobs of this queue")
	flags.StringVar(&f.Consumer, "consumer", "", "only messages received by this consumer")
	flags.StringVar(&f.Subscription, "subscription", "", "only parked messages of this subscription of a log")
	flags.StringVar(&f.Topic, "topic", "", "only rows of this topic")
	flags.StringVar(&f.Key, "key", "", "only rows with this key: that of a timer or schedule, the ordered or unique "+
		"key, the id of a received message")
	flags.StringVar(&f.Error, "error", "", "only rows whose last error contains this `text`")
	flags.Var((*age)(&f.OlderThan), "older-than", "only rows that ended, or that live and were written, longer ago than this")
	flags.Var((*age)(&f.NewerThan), "newer-than", "only rows that ended, or that live and were written, since this long ago")
}

// aboutOf names the part of a table that a filter's names select.
func aboutOf(f operate.Filter, table string) string {
	return names(given(table, f.Kind, f.Queue, f.Consumer, f.Subscription, f.Topic)...)
}
