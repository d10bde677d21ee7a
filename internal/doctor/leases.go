package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/survey"
)

// leaseChecks look for claims whose worker is gone, and for tables without a reaper.
var leaseChecks = []check{
	{
		code: "expired-leases", severity: Critical, fixes: true,
		title: "expired leases that have not been requeued",
		from:  rough(defaultThresholds.Expired),
		meaning: "The process that claimed these rows is dead, frozen or cut off from the database, and no reaper " +
			"returns the rows to other workers: their work has stopped.",
		remedy: "run `txwork reap` once, and make sure that `service`, `reaper.Run` or cron runs it from now on; " +
			"restart the silent process",
		look: inRowsOfEachTable(expiredLeases),
	},
	{
		code: "no-reaper", severity: Warning,
		title: "tables that no reaper maintains",
		from:  rough(defaultThresholds.Reaper),
		meaning: "When a worker dies, the rows that it had claimed stay claimed, and rows past their retention are " +
			"never deleted.",
		remedy: "run `service` or `reaper.Run` in a process, or `txwork reap` or the procedures …_maintain every minute; " +
			"give a table that no part of a service serves to its `Options.Tables`",
		look: noReaper,
	},
	{
		code: "retention", severity: Warning,
		title: "rows that are long past their retention",
		from:  "half of the retention, at least a day",
		meaning: "The table and its indexes grow without bound. Claims stay fast; backups and vacuum take ever " +
			"longer, and the disk fills up.",
		remedy: "run the reaper, or `txwork reap TABLE`; if your program configures a longer retention than the " +
			"migration, pass `--ignore retention`",
		look: inRowsOfEachTable(overdueRetention),
	},
}

// leaders are the reapers that maintain tables.
type leaders struct {
	all []survey.Leader
	err error
}

func (x *examination) readLeaders(ctx context.Context) ([]survey.Leader, error) {
	if x.leaders == nil {
		all, err := survey.Leaders(ctx, x.reader(), x.Schema)
		x.leaders = &leaders{all, err}
	}
	return x.leaders.all, x.leaders.err
}

// reaped says which reaper maintains a table, or maintained it last.
func (x *examination) reaped(ctx context.Context, t *table) (leads bool, ended time.Duration, text string) {
	all, err := x.readLeaders(ctx)
	if err != nil {
		return false, 0, "it cannot be determined which reaper maintains " + t.Name
	}
	i := slices.IndexFunc(all, func(l survey.Leader) bool { return l.Table == t.Schema+"."+t.Name })
	switch {
	case i < 0:
		return false, 0, "no reaper has ever maintained " + t.Name
	case all[i].Ended <= 0:
		return true, 0, fmt.Sprintf("a reaper maintains %s, but it fails, see its log", t.Name)
	}
	ended = seconds(all[i].Ended)
	return false, ended, fmt.Sprintf("no reaper maintains %s; maintenance last ran %s ago", t.Name, rough(ended))
}

// An expiredClaim is the rows that one claim has left behind.
type expiredClaim struct {
	Owner    string
	Rows     int64
	Ended    float64
	IDs      []string
	Attempts int32
	Label    string
}

func expiredLeases(ctx context.Context, x *examination, t *table) ([]Finding, error) {
	heads, err := x.readHeads(ctx, t)
	if err != nil {
		return nil, err
	}
	n, oldest := countExpired(heads)
	if n == 0 {
		return nil, nil
	}
	claims, err := readRows[expiredClaim](ctx, x, "expired", t, x.Thresholds.Expired.Seconds(), maxShown)
	if err != nil {
		return nil, err
	}
	f := x.expiredFinding(ctx, t, n, oldest)
	for _, c := range claims {
		f.Evidence = append(f.Evidence, evidence("owner_token", c.Owner, "rows", c.Rows, t.labelName(), c.Label,
			"ids", c.IDs, "ended_seconds", seconds(c.Ended), "attempts", c.Attempts))
	}
	silent, err := x.silentSessions(ctx, t)
	if len(silent) > 0 {
		f.Remedy.Do += " A silent session above is possibly its; each says why."
	}
	f.Evidence = append(f.Evidence, silent...)
	return []Finding{f}, err
}

func countExpired(heads []survey.Head) (n int64, oldest float64) {
	for _, h := range heads {
		if n += h.Expired; h.Expired > 0 {
			oldest = max(oldest, h.OldestExpired)
		}
	}
	return n, oldest
}

// expiredFinding returns the finding without its evidence.
func (x *examination) expiredFinding(ctx context.Context, t *table, n int64, oldest float64) Finding {
	_, _, who := x.reaped(ctx, t)
	return Finding{
		Title: fmt.Sprintf("%s: %s expired up to %s ago, not requeued", t.Name, plural(n, "lease"),
			rough(seconds(oldest))),
		Fixable: true,
		Remedy: Remedy{
			Do: "Requeue the rows, then start a reaper: " + who + ". Then look for the process that had them: it was " +
				"killed, or it still runs and is frozen or cut off; restart it.",
			Commands: []string{x.command("reap", "--no-purge", t.Name)},
			SQL:      []string{fmt.Sprintf("SELECT * FROM %s(10000);", t.Q("_reap_expired"))},
		},
	}
}

// labelName is the name that evidence uses for what a row is about.
func (t *table) labelName() string {
	if l := t.LabelName(); l != "" {
		return l
	}
	return "about"
}

// A silentSession is a session of a worker that has been silent for longer than a live worker's would be.
type silentSession struct {
	PID                       int32
	Application, Role, Client string
	State                     string
	Silent                    float64
	Reason                    string
}

// silentSessions returns sessions of processes that may have held the claims. A listener sends something every 30
// seconds, and a runtime closes sessions that have been idle for as long. A session of either that has been silent for
// longer belongs to a process that is frozen or cut off. For an open transaction this is less certain.
func (x *examination) silentSessions(ctx context.Context, t *table) (list []Evidence, err error) {
	all, err := readRows[silentSession](ctx, x, "silent", nil, x.Schema, x.Thresholds.Silent.Seconds(), maxShown,
		t.Table())
	for _, s := range all {
		list = append(list, evidence("silent_session", s.PID, "application", s.Application, "role", s.Role,
			"client", s.Client, "state", s.State, "silent_seconds", seconds(s.Silent), "possibly_because", s.Reason))
	}
	return list, err
}

func noReaper(ctx context.Context, x *examination) ([]Finding, error) {
	if _, err := x.readLeaders(ctx); err != nil {
		return nil, err
	}
	names, calls, found := x.unmaintained(ctx)
	if len(names) == 0 {
		return nil, nil
	}
	if scheduled, err := x.maintainedByCron(ctx); err != nil || scheduled {
		return nil, err
	}
	return []Finding{{
		Title:    "No reaper maintains " + strings.Join(names, ", "),
		Evidence: found,
		Remedy: Remedy{
			Do: "Run package service or reaper.Run in one of your processes. A service maintains the tables of its parts; " +
				"name others, such as an inbox that is only used through inboxhttp.Process, in service.Options.Tables. Or " +
				"run this every minute: the command from cron, or the SQL from pg_cron. Run once, it is enough for " +
				rough(x.Thresholds.Reaper) + ".",
			Commands: []string{x.command("reap")},
			SQL:      calls,
		},
	}}, nil
}

// unmaintained returns the tables without a reaper, and the calls that maintain them.
func (x *examination) unmaintained(ctx context.Context) (names, calls []string, found []Evidence) {
	for _, t := range x.tables {
		leads, ended, text := x.reaped(ctx, t)
		if leads || ended > 0 && ended < x.Thresholds.Reaper || !x.busy(ctx, t) {
			continue // if nothing has been claimed, no lease can expire
		}
		names = append(names, t.Name)
		calls = append(calls, fmt.Sprintf("CALL %s();", t.Q("_maintain")))
		found = append(found, evidence("table", t.Name, "state", text, "ended_seconds", ended))
	}
	return names, calls, found
}

// busy tells whether workers work on the table.
func (x *examination) busy(ctx context.Context, t *table) bool {
	busy, err := x.worked(ctx, t)
	if err != nil {
		x.skip(x.current.code, t.Name, err)
	}
	return busy
}

// worked tells whether a row of the table is in progress, or was completed recently.
func (x *examination) worked(ctx context.Context, t *table) (bool, error) {
	heads, err := x.readHeads(ctx, t)
	if err != nil || slices.ContainsFunc(heads, func(h survey.Head) bool { return h.Running > 0 }) {
		return err == nil, err
	}
	r, err := x.readRates(ctx, t)
	return r.Ended > 0, err
}

// maintainedByCron tells whether pg_cron calls one of the maintenance procedures.
func (x *examination) maintainedByCron(ctx context.Context) (found bool, err error) {
	err = x.read(ctx, func(tx pgx.Tx) error {
		const there = "SELECT to_regclass('cron.job') IS NOT NULL AND has_table_privilege(to_regclass('cron.job'), " +
			"'SELECT')"
		if err := tx.QueryRow(ctx, there).Scan(&found); err != nil || !found {
			found = false
			return err
		}
		return tx.QueryRow(ctx,
			`SELECT EXISTS (SELECT FROM cron.job AS j WHERE j.active AND j.command LIKE '%\_maintain%')`).Scan(&found)
	})
	return found, err
}

func overdueRetention(ctx context.Context, x *examination, t *table) ([]Finding, error) {
	if t.Retention == nil {
		return nil, nil
	}
	type oldest struct{ Age *float64 }
	all, err := readRows[oldest](ctx, x, "oldest_done", t)
	if err != nil || len(all) == 0 || all[0].Age == nil {
		return nil, err
	}
	age, retention := seconds(*all[0].Age), seconds(*t.Retention)
	late := retention + max(24*time.Hour, retention/2)
	if leads, _, _ := x.reaped(ctx, t); leads {
		late = 2 * retention // the leader's program may use another retention
	}
	if age <= late {
		return nil, nil
	}
	return []Finding{{
		Title: fmt.Sprintf("%s: the oldest finished row ended %s ago, the retention is %s", t.Name, rough(age),
			rough(retention)),
		Evidence: []Evidence{evidence("oldest_seconds", age, "retention_seconds", retention)},
		Remedy: Remedy{
			Do:       "Start a reaper. To delete what is past the retention of the migration once, by hand:",
			Commands: []string{x.command("reap", t.Name)},
			SQL:      []string{fmt.Sprintf("CALL %s();", t.Q("_maintain"))},
		},
	}}, nil
}

// command returns a command line of txwork for the same schema.
func (x *examination) command(args ...string) string {
	line := "txwork " + strings.Join(args, " ")
	if x.Schema != "txwork" {
		line += " --schema " + x.Schema
	}
	return line
}
