package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
)

// isLog tells whether a table that was named is a log.
func isLog(schema, name string) bool {
	return strings.TrimPrefix(name, schema+".") == postgres.LogTable
}

// hasLogOnly says so if the schema has no table of an outbox, which an error tells, but a log, and which flag or
// command is about that.
func (d *database) hasLogOnly(ctx context.Context, err error, ofLog string) error {
	if !errors.Is(err, workqueue.ErrSchemaVersion) {
		return err
	}
	var rows bool
	if err := d.Pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL",
		pgx.Identifier{d.Schema, "outbox"}.Sanitize()).Scan(&rows); err != nil {
		return err
	}
	l, logErr := survey.LogOf(ctx, survey.Reader{From: d.Pool, Limit: operate.ReadLimit}, d.Schema)
	if rows || logErr != nil || l == nil {
		return err
	}
	return fmt.Errorf("the outbox of schema %s is the log %s: %s", d.Schema, l.Name, ofLog)
}

// ofSubscriptions says what a log has in place of topics.
func (d *database) ofSubscriptions() string {
	return fmt.Sprintf("its topics are not paused and do not rest; its subscriptions do, which %s shows",
		postgres.Command(d.Schema, "subscriptions", "list"))
}

// noRows says what shows the messages of a log, which are no rows.
func (d *database) noRows() error {
	command := func(args ...string) string { return strings.Trim(postgres.Command(d.Schema, args...), "`") }
	return fmt.Errorf("%[1]s is a log: a message of it has no state of its own, but one in each subscription. '%[2]s' "+
		"shows how far subscriptions are, and '%[3]s' one message. Those that failed are rows of %[1]s_parked. Messages "+
		"are removed a week after they were written, once all subscriptions have passed them", postgres.LogTable,
		command("subscriptions", "list"), command("show", postgres.LogTable, "ID"))
}

func (a *app) printLogs(w io.Writer, all []operate.Log) error {
	for _, l := range all {
		fmt.Fprintln(w)
		if l.Hidden {
			if _, err := fmt.Fprintf(w, "%s: %s\n", l.Table, partial); err != nil {
				return err
			}
			continue
		}
		g := newGrid(w, "LOG", "TICK", "TICK AGE", "NOT TICKED", "OLDEST KEPT", "SIZE", "SCHEDULED", "OVERDUE")
		g.add(l.Table, fmt.Sprint(l.Tick), ageOrDash(l.TickAge), ageOrDash(l.Unticked), ageOrDash(l.Oldest),
			kilobytes(l.Bytes), brief(l.Scheduled, l.AtLeast), ageOrDash(l.Overdue))
		if err := g.flush(); err != nil {
			return err
		}
		if l.Restored {
			fmt.Fprintf(w, "%s: transaction ids began again, as after a restore: nothing is delivered until the owner of "+
				"its tables calls %[1]s_rebase()\n", l.Table)
		}
		if m := l.Moving; m != nil {
			fmt.Fprintf(w, "the outbox moves to subscription %s: left are %s, of which %d in progress and %d with a "+
				"limit of their key, which relays of the rows have to deliver\n", named(m.Subscription),
				plural(int(m.Unfinished), "row"), m.InProgress, m.Limited)
		}
		if err := printLags(w, l.Subscriptions); err != nil {
			return err
		}
	}
	return nil
}

func printLags(w io.Writer, all []operate.Subscription) error {
	g := newGrid(w, "SUBSCRIPTION", "LANES", "IN HAND", "MESSAGES", "OLDEST", "BEHIND", "STATE", "PARKED", "DEAD",
		"LOST", "KEEPS", "RETAINED")
	for _, s := range all {
		g.add(named(s.Name), fmt.Sprint(len(s.Lanes)), fmt.Sprint(s.InHand), brief(s.Messages, s.AtLeast),
			ageOrDash(s.Oldest), ageOrDash(s.Behind), subscriptionState(&s), fmt.Sprint(s.Live),
			fmt.Sprint(s.DeadLetters), fmt.Sprint(s.Lost), shownRetention(s.Retention), kilobytes(s.Retained))
	}
	if err := g.flush(); err != nil {
		return err
	}
	for _, s := range all {
		printRest(w, s.Name, s.Rest)
	}
	return nil
}

// printRest prints restLine if a destination is unavailable.
func printRest(w io.Writer, subscription string, r *operate.Rest) {
	if r != nil {
		fmt.Fprintln(w, restLine(subscription, r))
	}
}

// restLine says since when the destination of a subscription has been unavailable, why, and when it is probed.
func restLine(subscription string, r *operate.Rest) string {
	return fmt.Sprintf("%s: its destination has been unavailable for %s, and %s: %s", named(subscription),
		rough(seconds(r.Unavailable)), nextProbe(r), harmless(r.Cause))
}

// subscriptionState is what keeps a subscription from going on.
func subscriptionState(s *operate.Subscription) string {
	switch {
	case s.Paused:
		return "paused"
	case s.Rest != nil:
		return "unavailable"
	}
	return "-"
}

func nextProbe(r *operate.Rest) string {
	if r.Probe == 0 {
		return "a message probes it now"
	}
	return fmt.Sprintf("a message probes it in %.1f s", r.Probe)
}

func ageOrDash(age float64) string {
	if age == 0 {
		return "-"
	}
	return rough(seconds(age))
}

func kilobytes(bytes int64) string { return fmt.Sprintf("%d kB", bytes/1024) }

// listScheduled lists the messages that are not in a log yet.
func (a *app) listScheduled(ctx context.Context, table string, o listOptions) error {
	if o.Filter.Given() {
		return usagef("the scheduled messages of a log are listed without filters")
	}
	return a.withLogOf(ctx, table, func(d *database, l *survey.Log) error {
		if l.Filtered {
			return fmt.Errorf("%s: %s", l.Name, partial)
		}
		p, err := d.ScheduledMessages(ctx, l, o.Limit, o.After)
		if err != nil {
			return explain(err)
		}
		if o.json {
			return a.printJSON(p)
		}
		g := newGrid(a.stdout, "ID", "DUE", "TOPIC", "KEY", "BYTES")
		for _, m := range p.Messages {
			key := ""
			if m.Key != nil {
				key = *m.Key
			}
			g.add(m.ID.String(), stamp(m.DueAt, p.Now), named(m.Topic), dashed(key), fmt.Sprint(m.Bytes))
		}
		if err := g.flush(); err != nil || p.Next == "" {
			return err
		}
		return a.hintMore(p.Next)
	})
}

// withLogOf connects, and finds the log of the schema. Without one, the error says which tables there are.
func (a *app) withLogOf(ctx context.Context, table string, do func(*database, *survey.Log) error) error {
	return a.withDatabase(ctx, func(d *database) error {
		l, err := survey.LogOf(ctx, survey.Reader{From: d.Pool, Limit: operate.ReadLimit}, d.Schema)
		if err != nil {
			return explain(err)
		}
		if l == nil {
			_, err := d.table(ctx, table)
			return err
		}
		return do(d, l)
	})
}

// showMessage shows a message of a log.
func (a *app) showMessage(ctx context.Context, table string, id uuid.UUID, payload, asJSON bool) error {
	return a.withLogOf(ctx, table, func(d *database, l *survey.Log) error {
		progress := a.newTally("looking", "messages", -1)
		m, err := d.LogMessage(ctx, l, id, payloadBytes(payload), func(n int) { progress.set(int64(n)) })
		progress.end()
		if err != nil {
			return explain(err)
		}
		if asJSON {
			return a.printJSON(m)
		}
		return a.printMessage(m)
	})
}

func (a *app) printMessage(m *operate.LogMessage) error {
	g := newGrid(a.stdout)
	g.add("table", m.Table)
	g.add("id", m.ID.String())
	g.add("number", fmt.Sprint(m.Seq))
	g.add("transaction", fmt.Sprint(m.XID))
	g.add("created", stamp(m.CreatedAt, m.Now))
	g.add("topic", named(m.Topic))
	if m.Key != nil {
		g.add("key", named(*m.Key))
	}
	g.add("headers", harmless(string(m.Headers)))
	payloads := operate.Payloads{"payload": m.Payload}
	g.add("payload", summary(payloads, "payload"))
	for _, s := range m.Subscriptions {
		g.add("subscription", fmt.Sprintf("%s, lane %d: %s", named(s.Subscription), s.Lane, messageState(s)))
	}
	if err := g.flush(); err != nil {
		return err
	}
	if text, shown := printable(m.Payload); shown {
		_, err := fmt.Fprintf(a.stdout, "\npayload:\n%s\n", text)
		return err
	}
	return nil
}

// messageState says what has become of a message.
func messageState(s operate.MessageState) string {
	state := strings.ReplaceAll(strings.Replace(s.State, "_or_before_", ", or before its ", 1), "_", " ")
	if s.Parked != nil {
		state += ", and parked as row " + s.Parked.String()
	}
	return state
}
