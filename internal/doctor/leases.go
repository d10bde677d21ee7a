package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/postgres"
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
		code: "nobody-sees-all", severity: Critical,
		title: "tables under row-level security that no process maintains which sees all their rows",
		from:  rough(defaultThresholds.Reaper),
		meaning: "Processes of tenants leave to others what concludes from absent rows. Without such a process, ordered " +
			"and limited rows and rows behind a join do not run, schedules do not fire, and the rows of dead workers stay " +
			"claimed.",
		remedy: "run a reaper and a worker as the owner of the tables, or as a role with BYPASSRLS; or run `txwork reap` " +
			"or the procedures …_maintain as such a role every minute",
		look: nobodySeesAll,
	},
	{
		code: "failing-maintenance", severity: Warning,
		title: "tables of which a part is not maintained, because maintenance fails or skips rows",
		meaning: "Somebody maintains these tables, but not to the end. What is left of them stays: rows whose process is " +
			"dead are not requeued, rows past their retention are not deleted, or sweeps do not run.",
		remedy: "mend what the error names: grant what the role lacks, migrate the schema or the program, or remove what " +
			"keeps the row; then run `txwork reap TABLE`, which tells whether anything is left",
		look: failingMaintenance,
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
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42P01" {
			// Without the migrations there is no such table, and so no leader.
			if ours, why := x.migrated(ctx); why == nil && !ours {
				err = nil
			}
		}
		if err == nil {
			err = x.seesLeaders(ctx)
		}
		x.leaders = &leaders{all, err}
	}
	return x.leaders.all, x.leaders.err
}

// seesLeaders returns an error if row-level security hides leaders: a problem that one of them noted could be missing.
func (x *examination) seesLeaders(ctx context.Context) (err error) {
	var hidden bool
	err = x.read(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT coalesce(row_security_active(to_regclass($1)), false)",
			quoted(x.Schema, "leader")).Scan(&hidden)
	})
	if err == nil && hidden {
		err = x.filtered()
	}
	return err
}

// reaped says which reaper maintains a table, or maintained it last.
func (x *examination) reaped(ctx context.Context, t *table) (leads bool, ended time.Duration, text string) {
	all, err := x.readLeaders(ctx)
	if err != nil {
		return false, 0, "it cannot be determined which reaper maintains " + t.Name
	}
	i := slices.IndexFunc(all, func(l survey.Leader) bool { return l.Table == t.Schema+"."+t.Name })
	if i < 0 {
		return false, 0, "no reaper has ever maintained " + t.Name
	}
	leads, ended = all[i].Ended <= 0, max(seconds(all[i].Ended), 0)
	switch problem := all[i].Problem; {
	case leads && problem == "":
		text = fmt.Sprintf("a reaper maintains %s, but it fails, see its log", t.Name)
	case leads:
		text = fmt.Sprintf("a reaper maintains %s, but not to the end: %s", t.Name, problem)
	case problem == "":
		text = fmt.Sprintf("no reaper maintains %s; maintenance last ran %s ago", t.Name, rough(ended))
	default:
		text = fmt.Sprintf("maintenance of %s last ran %s ago, and not to the end: %s", t.Name, rough(ended), problem)
	}
	return leads, ended, text
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
	more := hides(heads)
	if n == 0 {
		if more {
			return nil, t.hiding()
		}
		return nil, nil
	}
	claims, err := readRows[expiredClaim](ctx, x, "expired", t, x.Thresholds.Expired.Seconds(), maxShown)
	if err != nil {
		return nil, err
	}
	f := x.expiredFinding(ctx, t, plural(n, "lease"), oldest)
	if more {
		f = x.expiredFinding(ctx, t, "at least "+plural(n, "lease"), oldest)
	}
	var tokens []string
	for _, c := range claims {
		tokens = append(tokens, c.Owner)
	}
	holder := x.holders(ctx, tokens)
	for _, c := range claims {
		f.Evidence = append(f.Evidence, append(evidence("owner_token", c.Owner, "rows", c.Rows, t.labelName(), c.Label,
			"ids", c.IDs, "ended_seconds", seconds(c.Ended), "attempts", c.Attempts), holder(c.Owner)...))
	}
	silent, err := x.silentSessions(ctx, t)
	if len(silent) > 0 {
		f.Remedy.Do += " A silent session above is possibly its; each says why."
	}
	f.Evidence = append(f.Evidence, silent...)
	return []Finding{f}, err
}

// hiding says that there are more due rows than are read to find those in progress.
func (t *table) hiding() gap {
	return gap{fmt.Sprintf("more than %d rows are due: rows in progress behind them were not looked at",
		survey.RunningRows), "start workers, or look when there are fewer"}
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
func (x *examination) expiredFinding(ctx context.Context, t *table, leases string, oldest float64) Finding {
	leads, ended, who := x.reaped(ctx, t)
	then := "start a reaper"
	if leads || ended > 0 && ended < x.Thresholds.Reaper {
		then = "mend the maintenance"
	}
	return Finding{
		Title: fmt.Sprintf("%s: %s expired up to %s ago, not requeued", t.Name, leases,
			rough(seconds(oldest))),
		Fixable: true,
		Remedy: Remedy{
			Do: "Requeue the rows, then " + then + ": " + who + ". Then look for the process that had them: it was " +
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

// failingMaintenance finds tables that somebody maintains, but not to the end.
func failingMaintenance(ctx context.Context, x *examination) (found []Finding, err error) {
	if len(x.tables) == 0 {
		return nil, nil
	}
	all, err := x.readLeaders(ctx)
	for _, l := range all {
		i := slices.IndexFunc(x.tables, func(t *table) bool { return l.Table == t.Schema+"."+t.Name })
		if i < 0 || l.Problem == "" {
			continue
		}
		t := x.tables[i]
		_, ended, text := x.reaped(ctx, t)
		found = append(found, Finding{
			Title: "The maintenance of " + t.Name + " does not do all",
			Evidence: []Evidence{evidence("table", t.Name, "problem", l.Problem, "state", text,
				"ended_seconds", ended)},
			Remedy: Remedy{
				Do: "Mend what the problem names: a right that the reaper's role lacks, a version of the program that " +
					"does not fit the schema, or what keeps a row. Reapers then notice by themselves within a minute. To run " +
					"the maintenance at once, and to see whether anything is left:",
				Commands: []string{x.command("reap", t.Name)},
				SQL:      []string{fmt.Sprintf("CALL %s();", t.Q("_maintain"))},
			},
		})
	}
	return found, err
}

func noReaper(ctx context.Context, x *examination) ([]Finding, error) {
	if len(x.tables) == 0 {
		return nil, nil
	}
	names, calls, found, err := x.unmaintained(ctx, func(t *table) bool {
		return !t.Secured && x.busy(ctx, t) // if nothing has been claimed, no lease can expire
	})
	if len(names) == 0 {
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

// nobodySeesAll looks for tables that roles see a part of and that nobody maintains: only who sees all rows is elected.
// It reads no rows, so it is complete whatever the role sees.
func nobodySeesAll(ctx context.Context, x *examination) ([]Finding, error) {
	if !slices.ContainsFunc(x.tables, func(t *table) bool { return t.Secured }) {
		return nil, nil
	}
	names, calls, found, err := x.unmaintained(ctx, func(t *table) bool { return t.Secured })
	if len(names) == 0 {
		return nil, err
	}
	return []Finding{{
		Title:    "No process that sees all rows maintains " + strings.Join(names, ", "),
		Evidence: found,
		Remedy: Remedy{
			Do: "Run package service or reaper.Run, and a worker, as the owner of the tables or as a role with BYPASSRLS. " +
				"Or run this every minute as such a role: the command from cron, or the SQL from pg_cron.",
			Commands: []string{x.command("reap")},
			SQL:      calls,
		},
	}}, nil
}

// cronWithin is how long ago a table was maintained at most for a job of pg_cron to count that runs more rarely than
// the threshold. Of one that has not run in this time, or always fails, nothing is known.
const cronWithin = 48 * time.Hour

// unmaintained returns those tables without a reaper, and the calls that maintain them. The error says of which tables
// it is not known.
func (x *examination) unmaintained(ctx context.Context, of func(*table) bool) (names, calls []string,
	found []Evidence, unknown error) {
	if _, err := x.readLeaders(ctx); err != nil {
		return nil, nil, nil, err
	}
	for _, t := range x.tables {
		leads, ended, text := x.reaped(ctx, t)
		if leads || ended > 0 && ended < x.Thresholds.Reaper || !of(t) {
			continue
		}
		if ended > 0 && ended < cronWithin {
			scheduled, err := x.maintainedByCron(ctx, t)
			if unknown = errors.Join(unknown, err); err != nil || scheduled {
				continue
			}
		}
		names = append(names, t.Name)
		calls = append(calls, fmt.Sprintf("CALL %s();", t.Q("_maintain")))
		found = append(found, evidence("table", t.Name, "state", text, "ended_seconds", ended))
	}
	return names, calls, found, unknown
}

// busy tells whether workers work on the table.
func (x *examination) busy(ctx context.Context, t *table) bool {
	if t.Filtered {
		x.skip(ctx, x.current.code, t.Name, x.filtered())
	}
	busy, err := x.worked(ctx, t)
	if err != nil {
		x.skip(ctx, x.current.code, t.Name, err)
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

// maintainedByCron tells whether a job of pg_cron calls the maintenance procedure of the table in this database.
func (x *examination) maintainedByCron(ctx context.Context, t *table) (found bool, err error) {
	var there, whole bool
	err = x.read(ctx, func(tx pgx.Tx) error {
		const seen = `SELECT c.oid IS NOT NULL, c.oid IS NULL OR NOT row_security_active(c.oid)
			FROM (SELECT) AS one
			LEFT JOIN pg_namespace AS n ON n.nspname = 'cron'
			LEFT JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = 'job'`
		if err := tx.QueryRow(ctx, seen).Scan(&there, &whole); err != nil || !there {
			return err
		}
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM cron.job AS j
			WHERE j.active AND j.command ~ ('(^|[^a-zA-Z0-9_])' || $1 || '_maintain"?\s*\(')
			  AND coalesce(to_jsonb(j) ->> 'database', current_database()) = current_database())`, t.Name).Scan(&found)
	})
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "42501" && there:
		return false, gap{"whether pg_cron maintains the tables is unknown: " + pg.Message,
			fmt.Sprintf("GRANT USAGE ON SCHEMA cron TO %[1]s; GRANT SELECT ON cron.job TO %[1]s", quoted(x.report.Role))}
	case err == nil && !found && !whole:
		return false, gap{fmt.Sprintf("whether pg_cron maintains the tables is unknown: row-level security shows role %q "+
			"a part of cron.job only", x.report.Role), "look as the role that scheduled the jobs, or as a superuser"}
	}
	return found, err
}

func overdueRetention(ctx context.Context, x *examination, t *table) ([]Finding, error) {
	if t.Retention == nil {
		return nil, nil
	}
	oldest, err := survey.OldestEnded(ctx, x.reader(), &t.Facts)
	if err != nil || oldest.Done == nil {
		return nil, err
	}
	age, retention := seconds(*oldest.Done), seconds(*t.Retention)
	late := retention + max(24*time.Hour, retention/2)
	leads, ended, who := x.reaped(ctx, t)
	if leads {
		late = 2 * retention // the leader's program may use another retention
	}
	if age <= late {
		return nil, nil
	}
	first := "Start a reaper."
	if leads || ended > 0 && ended < x.Thresholds.Reaper {
		first = "Mend the maintenance: " + who + "."
	}
	return []Finding{{
		Title: fmt.Sprintf("%s: the oldest finished row ended %s ago, the retention is %s", t.Name, rough(age),
			rough(retention)),
		Evidence: []Evidence{evidence("oldest_seconds", age, "retention_seconds", retention)},
		Remedy: Remedy{
			Do:       first + " To delete what is past the retention of the migration once, by hand:",
			Commands: []string{x.command("reap", t.Name)},
			SQL:      []string{fmt.Sprintf("CALL %s();", t.Q("_maintain"))},
		},
	}}, nil
}

// command returns a command line of txwork for the same schema.
func (x *examination) command(args ...string) string {
	return strings.Trim(postgres.Command(x.Schema, args...), "`")
}
