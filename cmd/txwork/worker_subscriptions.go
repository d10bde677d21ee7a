package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// makeSubscriptions makes the subscriptions that the file says are to be made. One that exists and is not what the file
// says is refused, and not changed: another worker may have another file, and the last one to start would win.
func (w *workerRun) makeSubscriptions(ctx context.Context) error {
	if w.file.Outbox == nil {
		return nil
	}
	all := w.file.Outbox.Subscriptions
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if made := all[name].Make; made != nil {
			if err := w.makeSubscription(ctx, *made); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeSubscription waits for a database that does not answer, as the rest of a worker does.
func (w *workerRun) makeSubscription(ctx context.Context, s outbox.Subscription) error {
	var away outage.Log
	defer away.Flush()
	for pause := outage.MinPause; ; {
		differs, err := w.tryToMake(ctx, s)
		switch {
		case differs != nil:
			return fmt.Errorf("subscription %s exists, but is not what the file says is to be made: %s: change the file, "+
				"or the subscription with %s", s.Name, strings.Join(differs, ", "),
				postgres.Command(w.db.Schema, "subscriptions", "change", s.Name))
		case err == nil:
			away.Succeeded(w.logger, s.Name)
			return nil
		case ctx.Err() != nil:
			return nil // interrupted before it began
		case !outage.Is(err):
			return err
		}
		away.Failed(w.logger, s.Name, err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
			pause = outage.Next(pause, err)
		}
	}
}

// tryToMake makes a subscription, or says in what the one that exists differs.
func (w *workerRun) tryToMake(ctx context.Context, s outbox.Subscription) (differs []string, err error) {
	box, err := outbox.Open(outbox.Options{Schema: w.db.Schema, Storage: outbox.Log})
	if err != nil {
		return nil, err
	}
	if err := box.Table().CheckVersion(ctx, w.db.Pool); err != nil {
		return nil, err
	}
	known, err := w.db.hasSubscription(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	if !known {
		err := w.db.Act(ctx, subscriptionAct("subscribe", s.Name), func(tx workqueue.Tx) (int, error) {
			return 1, box.Subscribe(ctx, tx, s)
		})
		switch {
		case err == nil:
			w.logger.Info("the subscription was made", "subscription", s.Name)
			return nil, nil
		case !postgres.IsTaken(err): // otherwise another worker has just made it
			return nil, err
		}
	}
	var is operate.SubscriptionFilter
	err = w.db.readTx(ctx, func(tx workqueue.Tx, _ time.Time) (err error) {
		is, err = w.db.SubscriptionFilter(ctx, tx, s.Name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return differences(s, is), nil
}

// differences says in what a subscription is not what a file says. What the file does not say may be as it is, and
// where the subscription began is over.
func differences(want outbox.Subscription, is operate.SubscriptionFilter) (all []string) {
	differ := func(what, have, want string) { all = append(all, fmt.Sprintf("%s %s, not %s", what, have, want)) }
	if want.Topics != nil && !sameTopics(want.Topics, is.Topics) {
		differ("it has the topics", shownTopics(is.Topics), shownTopics(want.Topics))
	}
	if want.Headers != nil && !maps.Equal(want.Headers, is.Headers) {
		differ("the headers", shownHeaders(is.Headers), shownHeaders(want.Headers))
	}
	if want.Lanes != 0 && want.Lanes != is.Lanes {
		differ("as lanes", fmt.Sprint(is.Lanes), fmt.Sprint(want.Lanes))
	}
	if want.MaxAge != 0 && want.MaxAge.Seconds() != is.MaxAge {
		differ("as max_age", seconds(is.MaxAge).String(), want.MaxAge.String())
	}
	if want.MaxMessages != 0 && want.MaxMessages != is.MaxMessages {
		differ("as max_messages", fmt.Sprint(is.MaxMessages), fmt.Sprint(want.MaxMessages))
	}
	return all
}

// sameTopics compares what topics select, whatever their order. A * is all of them, as is nil.
func sameTopics(a, b []string) bool {
	set := func(topics []string) []string {
		if slices.Contains(topics, "*") {
			return nil
		}
		sorted := slices.Sorted(slices.Values(topics))
		return slices.Compact(sorted)
	}
	return slices.Equal(set(a), set(b))
}
