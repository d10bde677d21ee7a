package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
)

// begin says where a subscription begins.
func begin(f operate.SubscriptionFilter) string {
	if f.Tick == 0 {
		return "it begins with the oldest message that is kept"
	}
	return fmt.Sprintf("it begins behind tick %d", f.Tick)
}

// printMatching says so if a filter selects none of the newest messages.
func printMatching(w io.Writer, f operate.SubscriptionFilter) error {
	if f.Newest == 0 || f.Matching > 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "none of the newest %s of the log has its topics and headers\n",
		plural(int(f.Newest), "message"))
	return err
}

// printFilters shows what a change has made of a filter.
func printFilters(w io.Writer, before, after operate.SubscriptionFilter) error {
	g := newGrid(w, "", "TOPICS", "HEADERS", "LANES", "KEEPS")
	for _, f := range []struct {
		when string
		operate.SubscriptionFilter
	}{{"before", before}, {"after", after}} {
		g.add(f.when, shownTopics(f.Topics), shownHeaders(f.Headers), fmt.Sprint(f.Lanes), shownRetention(f.Retention))
	}
	if err := g.flush(); err != nil {
		return err
	}
	return printMatching(w, after)
}

func shownTopics(topics []string) string {
	if topics == nil {
		return "*"
	}
	return cell(strings.Join(topics, " "), cellWidth)
}

func shownHeaders(headers map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		all = append(all, name+"="+headers[name])
	}
	if all == nil {
		return "-"
	}
	return cell(strings.Join(all, " "), cellWidth)
}

// shownRetention says beyond which age and number messages are given up.
func shownRetention(r operate.Retention) string {
	var all []string
	if r.MaxAge > 0 {
		all = append(all, rough(seconds(r.MaxAge)))
	}
	if r.MaxMessages > 0 {
		all = append(all, plural(int(r.MaxMessages), "message"))
	}
	if all == nil {
		return "all"
	}
	return strings.Join(all, ", ")
}

// refuseUnknown refuses a filter that has found nothing because it names a subscription that the log of the schema does
// not have.
func (d *database) refuseUnknown(ctx context.Context, f operate.Filter, found int) error {
	if f.Subscription == "" || found > 0 {
		return nil
	}
	known, err := d.hasSubscription(ctx, f.Subscription)
	if err != nil || known {
		return err
	}
	return usagef("--subscription %q is not that of a subscription: %s shows which there are", f.Subscription,
		postgres.Command(d.Schema, "subscriptions", "list"))
}
