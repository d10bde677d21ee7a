package workerfile

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// A Retrying says for how long rows are retried whose attempts fail at once, see [workqueue.Retry.Span].
type Retrying struct {
	What        string // a section, or a handler of it that has a backoff or a number of attempts of its own
	Attempts    int    // of a row that names no number
	Least, Most time.Duration
}

// Retries says how long the rows of each section, and those of handlers with limits of their own, are retried before
// they are dead letters.
func (f *File) Retries() (all []Retrying, err error) {
	section := func(name string, spec workqueue.Spec, handlers Handlers) {
		all = append(all, retrying(name, spec.Retry, spec.MaxAttempts))
		all = append(all, handlers.retries(name, spec)...)
	}
	if f.Outbox != nil {
		box, openErr := outbox.Open(f.Outbox.Options)
		if err = cmp.Or(err, openErr); openErr == nil {
			spec := box.Table().Spec()
			section("outbox", spec, f.Outbox.Topics)
			for _, name := range slices.Sorted(maps.Keys(f.Outbox.Subscriptions)) {
				all = append(all, f.Outbox.Subscriptions[name].Topics.retries("outbox, subscription "+name, spec)...)
			}
		}
	}
	if f.Inbox != nil {
		box, openErr := inbox.Open(f.Inbox.Options)
		if err = cmp.Or(err, openErr); openErr == nil {
			spec := box.Table().Spec()
			section("inbox", spec, nil)
			for _, name := range slices.Sorted(maps.Keys(f.Inbox.Consumers)) {
				all = append(all, f.Inbox.Consumers[name].Topics.retries("inbox of "+name, spec)...)
			}
		}
	}
	if f.Timers != nil {
		t, openErr := timers.Open(f.Timers.Options)
		if err = cmp.Or(err, openErr); openErr == nil {
			section("timers", t.Table().Spec(), f.Timers.Topics)
		}
	}
	if f.Jobs != nil {
		client, openErr := jobs.Open(f.Jobs.Options)
		if err = cmp.Or(err, openErr); openErr == nil {
			section("jobs", client.Table().Spec(), f.Jobs.Kinds)
		}
	}
	return all, err
}

// retries are those of the handlers that have limits of their own.
func (all Handlers) retries(section string, spec workqueue.Spec) (list []Retrying) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h := all[name]
		if h.MaxAttempts == 0 && h.Retry == (workqueue.Retry{}) {
			continue
		}
		// A handler can give a row up earlier than the row itself, and not later.
		attempts := min(cmp.Or(h.MaxAttempts, spec.MaxAttempts), spec.MaxAttempts)
		list = append(list, retrying(section+" "+name, cmp.Or(h.Retry, spec.Retry), attempts))
	}
	return list
}

func retrying(what string, retry workqueue.Retry, attempts int) Retrying {
	least, most := retry.Span(attempts)
	return Retrying{what, attempts, least, most}
}
