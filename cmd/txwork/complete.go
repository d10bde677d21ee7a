package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Bounds on the work that one press of the Tab key may cause.
const (
	completeSample = 1000 // rows of a state that values are sampled from
	completeValues = 100
)

// completeTimeout is longer in tests, none of which may fail on a busy machine.
var completeTimeout = 2 * time.Second

// A completer lists the words that may stand at one place of a command line.
type completer = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// An offer lists the values that may stand in the place of an argument: args are the arguments before it, and begun is
// what has been typed of it. A value may be followed by a tab and a description.
type offer func(ctx context.Context, d *database, args []string, begun string) ([]string, error)

// completeNames adds completion to the commands. Tables, queues, ids, keys, names of schedules and subscriptions, and
// values of filters are read from the database.
func (a *app) completeNames(cmd *cobra.Command) {
	if offers, many := argumentsOf(cmd); len(offers) > 0 && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = a.completeArguments(offers, many)
	}
	for _, name := range []string{"kind", "queue", "topic", "consumer", "key"} {
		if cmd.Flags().Lookup(name) != nil {
			cmd.RegisterFlagCompletionFunc(name, a.completeValues(name))
		}
	}
	if cmd.Flags().Lookup("subscription") != nil {
		cmd.RegisterFlagCompletionFunc("subscription", a.completer(subscriptionNames))
	}
	for name, offers := range flagOffers[cmd.CommandPath()] {
		cmd.RegisterFlagCompletionFunc(name, a.completer(offers))
	}
	if cmd.Flags().Lookup("status") != nil {
		cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statesOf(cmd),
			cobra.ShellCompDirectiveNoFileComp))
	}
	for _, sub := range cmd.Commands() {
		a.completeNames(sub)
	}
}

// completer turns an offer into a completer that asks the database.
func (a *app) completer(offers offer) completer {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.complete(cmd, begun, func(ctx context.Context, d *database) ([]string, error) {
			return offers(ctx, d, args, begun)
		})
	}
}

// completeArguments offers the values of each argument, leaving out those already given. With many, the last argument
// may be repeated.
func (a *app) completeArguments(offers []offer, many bool) completer {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(offers) && !many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, directive := a.completer(offers[min(len(args), len(offers)-1)])(cmd, args, begun)
		return slices.DeleteFunc(found, func(s string) bool { return slices.Contains(args, valueOf(s)) }), directive
	}
}

// flagOffers are the offers of flags that take an id, a key or a label, by command.
var flagOffers = map[string]map[string]offer{
	"txwork jobs list": {
		"after": idsOf(jobsTable, "show"),
		"schedule": func(ctx context.Context, d *database, _ []string, begun string) ([]string, error) {
			return d.scheduleNames(ctx, jobsTable+"_schedule", begun)
		},
	},
	"txwork joins": {
		"after": joinsOf(joinIDText),
		"label": joinsOf("DISTINCT coalesce(j.label, '')"),
	},
	"txwork timers list":    {"after": timerKeys(), "prefix": timerKeys()},
	"txwork schedules list": {"after": scheduleNames, "prefix": scheduleNames},
}

// joinIDText selects the id of a join j, followed by a tab and its label.
const joinIDText = "j.id::text || E'\t' || coalesce(j.label, '')"

// argumentsOf finds out from a command's usage line what its arguments are, and whether the last may be repeated.
func argumentsOf(cmd *cobra.Command) (offers []offer, many bool) {
	table, parent := "", ""
	if cmd.HasParent() {
		parent = cmd.Parent().Name()
	}
	if parent == "jobs" || parent == "outbox" || parent == "inbox" {
		table = parent
	}
	for _, word := range strings.Fields(cmd.Use)[1:] {
		name := strings.Trim(word, "[]().")
		switch {
		case name == "TABLE":
			offers = append(offers, func(ctx context.Context, d *database, _ []string, _ string) ([]string, error) {
				return d.TableNames(ctx)
			})
		case name == "QUEUE":
			offers = append(offers, func(ctx context.Context, d *database, _ []string, _ string) ([]string, error) {
				return d.values(ctx, jobsTable, "queue")
			})
		case name == "TOPIC" || name == "CONSUMER":
			offers = append(offers, func(ctx context.Context, d *database, _ []string, _ string) ([]string, error) {
				return d.values(ctx, table, strings.ToLower(name))
			})
		case name == "ID" && cmd.Name() == "joins":
			offers = append(offers, joinsOf(joinIDText))
		case name == "ID":
			offers = append(offers, idsOf(table, cmd.Name()))
		case name == "KEY" && cmd.Name() == "cancel":
			offers = append(offers, timerKeys(workqueue.Ready, workqueue.InProgress))
		case name == "KEY":
			offers = append(offers, timerKeys())
		case name == "NAME" && parent == "schedules":
			offers = append(offers, scheduleNames)
		case name == "NAME" && parent == "subscriptions" && cmd.Name() != "add":
			offers = append(offers, subscriptionNames)
		default:
			return offers, many
		}
		many = strings.Contains(word, "...")
	}
	return offers, many
}

// statesOf returns the values that --status of a command accepts.
func statesOf(cmd *cobra.Command) []string {
	switch cmd.Name() {
	case "joins":
		return operate.JoinStates
	case "list":
		if cmd.HasParent() && cmd.Parent().Name() == "schedules" {
			return scheduleStates
		}
	case "cancel":
		return statusValues(operate.LiveStates)
	case "reschedule":
		return operate.UnbegunStates
	case "delete":
		return operate.EndedStates
	}
	return stateNames()
}

// completeValues offers values that occur in recent rows of a column of the command's table.
func (a *app) completeValues(column string) completer {
	tables := map[string]string{"kind": jobsTable, "queue": jobsTable, "topic": "outbox", "consumer": "inbox"}
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		table := tables[column]
		if cmd.HasParent() && cmd.Parent().Name() == "jobs" {
			table = jobsTable
		} else if len(args) > 0 {
			table = args[0]
		}
		columns := []string{column}
		if column == "key" {
			columns = operate.KeyColumns
		}
		return a.complete(cmd, begun, func(ctx context.Context, d *database) ([]string, error) {
			return d.values(ctx, table, columns...)
		})
	}
}

// complete asks the database, and offers nothing if that fails or takes longer than completeTimeout.
func (a *app) complete(cmd *cobra.Command, begun string, ask func(context.Context, *database) ([]string,
	error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	var found []string
	err := a.withDatabase(ctx, func(d *database) (err error) {
		found, err = ask(ctx, d)
		return err
	})
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(found, func(s string) bool {
		value := valueOf(s)
		return !strings.HasPrefix(value, begun) || harmless(value) != value
	}), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// valueOf returns an offered value without its description.
func valueOf(offered string) string {
	value, _, _ := strings.Cut(offered, "\t")
	return value
}

// values returns the values of some columns, as far as the table has them, among the rows that are claimed next and
// those that failed last.
func (d *database) values(ctx context.Context, table string, columns ...string) (found []string, err error) {
	err = d.sample(ctx, table, func(tx pgx.Tx, l operate.Layout) error {
		var parts []string
		for _, name := range columns {
			if l.Has(name) {
				parts = append(parts, fmt.Sprintf(`
					(SELECT %[1]s::text AS value FROM %[2]s AS r WHERE r.completed_at IS NULL AND NOT r.waiting LIMIT %[3]d)
					UNION ALL
					(SELECT %[1]s::text FROM %[2]s AS r WHERE r.failed_at IS NOT NULL ORDER BY r.failed_at DESC, r.id DESC
					LIMIT %[3]d)`, "r."+operate.Column{Name: name}.Quoted(), l.Table, completeSample))
			}
		}
		if len(parts) == 0 {
			return nil
		}
		return texts(ctx, tx, &found, fmt.Sprintf("SELECT DISTINCT s.value FROM (%s) AS s WHERE s.value IS "+
			"NOT NULL ORDER BY 1 LIMIT %d", strings.Join(parts, " UNION ALL "), completeValues))
	})
	return found, err
}

// sample calls read if the table exists.
func (d *database) sample(ctx context.Context, table string, read func(pgx.Tx, operate.Layout) error) error {
	known, err := d.TableNames(ctx)
	if err != nil || !slices.Contains(known, table) {
		return err
	}
	return d.Read(ctx, func(tx pgx.Tx) error {
		l, err := operate.ReadLayout(ctx, tx, specOf(d.Schema, table))
		if err != nil {
			return err
		}
		return read(tx, l)
	})
}

// texts reads a column of texts.
func texts(ctx context.Context, tx pgx.Tx, found *[]string, query string, args ...any) error {
	rows, err := tx.Query(ctx, query, args...)
	if err == nil {
		*found, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return err
}

// idsOf offers ids of rows that the command can act on, those that failed last first. If table is empty, the first
// argument names it.
func idsOf(table, command string) offer {
	return func(ctx context.Context, d *database, args []string, begun string) (found []string, err error) {
		of := table
		if of == "" {
			of = args[0]
		}
		least, most, ok := idRange(begun)
		if !ok {
			return nil, nil
		}
		err = d.sample(ctx, of, func(tx pgx.Tx, l operate.Layout) error {
			return texts(ctx, tx, &found, idText(l, command, begun), least, most)
		})
		for i, text := range found {
			value, about, _ := strings.Cut(text, "\t")
			found[i] = value + "\t" + cell(about, 2*cellWidth)
		}
		return found, err
	}
}

// idText selects ids, each with a description that tells the rows apart. Each part of the statement reads a bounded
// number of rows through an index.
func idText(l operate.Layout, command, begun string) string {
	about := "''"
	for _, name := range []string{"topic", "kind", "name"} {
		if l.Has(name) {
			about = "r." + operate.Column{Name: name}.Quoted() + "::text"
		}
	}
	const live = "r.completed_at IS NULL AND NOT r.waiting"
	failed := []string{"'failed'", "r.failed_at IS NOT NULL AND r.cancelled_at IS NULL",
		"ORDER BY r.failed_at DESC, r.id DESC"}
	alive := [][]string{{"CASE r.status WHEN 1 THEN 'in_progress' ELSE 'ready' END", live, ""},
		{"'waiting'", "r.completed_at IS NULL AND r.waiting", ""}}
	parts := append([][]string{failed}, alive...)
	switch {
	case slices.Contains([]string{"redrive", "unblock", "discard", "delete"}, command):
		parts = parts[:1]
	case slices.Contains([]string{"cancel", "run-now", "reschedule"}, command):
		parts = alive
	case begun != "": // any row whose id has this prefix
		parts = append(parts,
			[]string{"CASE WHEN r.failed_at IS NOT NULL THEN 'failed' WHEN r.completed_at IS NOT NULL " +
				"THEN 'done' ELSE 'live' END", "r.id BETWEEN $1::uuid AND $2::uuid", "ORDER BY r.id"})
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = fmt.Sprintf("(SELECT %d AS part, r.id, %s AS state, %s AS about, "+
			"split_part(coalesce(r.last_error, ''), E'\n', 1) AS error FROM %s AS r WHERE %s %s LIMIT %d)", i, p[0],
			about, l.Table, p[1], p[2], completeSample)
	}
	return fmt.Sprintf(`SELECT o.text FROM (
			SELECT DISTINCT ON (s.id) s.part, s.id::text || E'\t' || concat_ws(' ', s.state, s.about, nullif(s.error, '')) AS text
			FROM (%s) AS s
			WHERE s.id BETWEEN $1::uuid AND $2::uuid
			ORDER BY s.id, s.part) AS o
		ORDER BY o.part, o.text DESC
		LIMIT %d`, strings.Join(texts, " UNION ALL "), completeValues)
}

// idRange returns the least and the greatest id with the given prefix.
func idRange(begun string) (least, most uuid.UUID, ok bool) {
	digits := strings.ReplaceAll(begun, "-", "")
	if len(digits) > 32 {
		return least, most, false
	}
	least, err := uuid.Parse(digits + strings.Repeat("0", 32-len(digits)))
	if err != nil {
		return least, most, false
	}
	most, err = uuid.Parse(digits + strings.Repeat("f", 32-len(digits)))
	return least, most, err == nil
}

// joinsOf offers an expression over the newest joins j of the table that the first argument names.
func joinsOf(what string) offer {
	return func(ctx context.Context, d *database, args []string, _ string) (found []string, err error) {
		if len(args) == 0 {
			return nil, nil
		}
		err = d.sample(ctx, args[0], func(tx pgx.Tx, l operate.Layout) error {
			if !l.Has("joined") {
				return nil
			}
			return texts(ctx, tx, &found, fmt.Sprintf("SELECT %s FROM (SELECT * FROM %s ORDER BY id DESC "+
				"LIMIT %d) AS j LIMIT %d", what, pgx.Identifier{d.Schema, args[0] + "_join"}.Sanitize(), completeSample,
				completeValues))
		})
		return slices.DeleteFunc(found, func(s string) bool { return s == "" }), err
	}
}

// timerKeys offers the keys of timers in the given states, or in any state if none are given.
func timerKeys(states ...workqueue.Status) offer {
	return func(ctx context.Context, d *database, _ []string, begun string) (found []string, err error) {
		t, err := timers.Open(timers.Options{Schema: d.Schema, Telemetry: d.app.telemetry()})
		if err != nil {
			return nil, err
		}
		err = d.readTx(ctx, func(tx workqueue.Tx, _ time.Time) error {
			list, err := t.List(ctx, tx, timers.Filter{Prefix: begun, Status: states, Limit: completeValues})
			for _, i := range list {
				found = append(found, i.Key+"\t"+i.Status.String()+" "+harmless(i.Topic))
			}
			return err
		})
		return found, err
	}
}

// subscriptionNames offers the names of subscriptions, if the schema has a log.
func subscriptionNames(ctx context.Context, d *database, _ []string, begun string) (found []string, err error) {
	err = d.sample(ctx, postgres.LogTable+"_parked", func(tx pgx.Tx, _ operate.Layout) error {
		return texts(ctx, tx, &found, fmt.Sprintf("SELECT s.name FROM %s AS s WHERE starts_with(s.name, $1) "+
			"ORDER BY 1 LIMIT %d", pgx.Identifier{d.Schema, postgres.LogTable + "_subscription"}.Sanitize(),
			completeValues), begun)
	})
	return found, err
}

// scheduleNames offers the names of schedules of timers and of jobs.
func scheduleNames(ctx context.Context, d *database, _ []string, begun string) (found []string, err error) {
	for _, table := range []string{"timers_schedule", jobsTable + "_schedule"} {
		names, tableErr := d.scheduleNames(ctx, table, begun)
		found, err = append(found, names...), cmp.Or(err, tableErr)
	}
	slices.Sort(found)
	return slices.Compact(found), err
}

func (d *database) scheduleNames(ctx context.Context, table, begun string) (found []string, err error) {
	err = d.sample(ctx, table, func(tx pgx.Tx, l operate.Layout) error {
		return texts(ctx, tx, &found, fmt.Sprintf("SELECT r.name FROM %s AS r WHERE starts_with(r.name, $1) "+
			"AND r.status < 2 ORDER BY 1 LIMIT %d", l.Table, completeValues), begun)
	})
	return found, err
}
