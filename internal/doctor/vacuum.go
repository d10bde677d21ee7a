package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/reaper"
)

// vacuumChecks look for what keeps vacuum from keeping the tables small.
var vacuumChecks = []check{
	{
		code: "horizon-held", severity: Warning,
		title: "a transaction, prepared transaction, replication slot or standby that holds back vacuum, and whose it is",
		from: rough(defaultThresholds.Horizon) + ", a slot or standby from " + plural(defaultThresholds.SlotAge,
			"transaction") + "; critical from " + rough(6*defaultThresholds.Horizon),
		meaning: "Dead rows cannot be removed. Claims stay fast, but tables grow, and other queries become slower.",
		remedy: "end the transaction: `pg_terminate_backend`, on the standby if it is there, `ROLLBACK PREPARED`, " +
			"`pg_drop_replication_slot`",
		look: heldHorizon,
	},
	{
		code: "slot-behind", severity: Warning,
		title:   "an inactive replication slot that retains write-ahead log",
		from:    fmt.Sprintf("%d MB", defaultThresholds.SlotBytes>>20),
		meaning: "The disk of the server fills up. When it is full, no transaction can commit.",
		remedy:  "start its consumer, or `pg_drop_replication_slot`",
		look:    inactiveSlots,
	},
	{
		code: "autovacuum-off", severity: Warning, fixes: true,
		title: "autovacuum is disabled, for the server or for a table",
		meaning: "Dead rows and outdated statistics accumulate: tables grow, and in the end the server refuses " +
			"writes to prevent a wraparound of transaction ids.",
		remedy: "`ALTER SYSTEM SET autovacuum = on`, or `ALTER TABLE … RESET (autovacuum_enabled)`",
		look:   autovacuumOff,
	},
	{
		code: "bloat", severity: Warning,
		title: "a table with far more dead rows than autovacuum should have let it have",
		from: fmt.Sprintf("%d dead rows, and %d times the threshold of autovacuum", defaultThresholds.Dead,
			muchDead),
		meaning: "The table and its indexes grow, and queries on them become slower.",
		remedy:  "`VACUUM`, once nothing holds the horizon; more or faster autovacuum workers",
		look:    inEachTable(bloat),
	},
}

// holders are the transactions, slots and standbys that hold back vacuum.
type holders struct {
	all    []reaper.Holder
	hidden int64
	err    error
}

func (x *examination) readHolders(ctx context.Context) *holders {
	if x.vacuumHolders == nil {
		h := &holders{}
		h.err = x.read(ctx, func(tx pgx.Tx) (err error) {
			h.all, h.hidden, err = reaper.Holders(ctx, tx)
			return err
		})
		x.vacuumHolders = h
	}
	return x.vacuumHolders
}

func heldHorizon(ctx context.Context, x *examination) (all []Finding, err error) {
	held := x.readHolders(ctx)
	if held.err != nil {
		return nil, held.err
	}
	if held.hidden > 0 {
		x.skip(ctx, x.current.code, "", x.hidden(held.hidden))
	}
	for _, h := range held.all {
		if !x.holds(h) {
			continue
		}
		f := x.holderFinding(h)
		if h.Age > 6*x.Thresholds.Horizon {
			f.Severity = Critical
		}
		all = append(all, f)
	}
	return all, nil
}

// hidden says that PostgreSQL shows the role too little of other roles' sessions.
func (x *examination) hidden(sessions int64) gap {
	return gap{fmt.Sprintf("%s of other roles cannot be inspected", plural(sessions, "session")),
		fmt.Sprintf("GRANT pg_read_all_stats TO %s", quoted(x.report.Role))}
}

// holds tells whether a holder has held back vacuum for too long. For slots and standbys only the number of
// transactions begun since is known.
func (x *examination) holds(h reaper.Holder) bool {
	if h.Kind == reaper.ReplicationSlot || h.Kind == reaper.Standby {
		return h.XminAge > x.Thresholds.SlotAge
	}
	return h.Age > x.Thresholds.Horizon
}

func (x *examination) holderFinding(h reaper.Holder) Finding {
	what := "the queues"
	if h.CatalogOnly {
		what = "the system catalogs"
	}
	f := Finding{Evidence: []Evidence{evidence("kind", string(h.Kind), "pid", pidOf(h), "name", h.Name, "role", h.Role,
		"database", h.Database,
		"application", h.Application, "client", h.Client, "state", h.State, "age_seconds", h.Age, "xmin_age",
		h.XminAge)}}
	switch {
	case h.Kind == reaper.Transaction:
		f.Title = fmt.Sprintf("session %d (%s) has had a transaction open for %s, which holds back vacuum", h.PID,
			orUnknown(h.Application, h.Role), rough(h.Age))
		f.Remedy = Remedy{Do: "End the session. To prevent it, find out why its program leaves transactions open, or " +
			"set idle_in_transaction_session_timeout.",
			SQL: []string{fmt.Sprintf("SELECT pg_terminate_backend(%d);", h.PID)}}
	case h.Kind == reaper.PreparedTransaction:
		f.Title = fmt.Sprintf("prepared transaction %q of %s has been prepared for %s, which holds back vacuum", h.Name,
			postgres.Name(h.Role), rough(h.Age))
		f.Remedy = Remedy{Do: "Commit it or roll it back, as its transaction manager decides.",
			SQL: []string{fmt.Sprintf("ROLLBACK PREPARED %s;", postgres.Literal(h.Name))}}
	case h.Kind == reaper.Standby:
		f.Title = fmt.Sprintf("a query on standby %s holds back vacuum by %d transactions", orUnknown(h.Application,
			h.Role),
			h.XminAge)
		f.Remedy = x.onStandby(h.Xmin)
	case h.State == "active" && h.Database == "":
		f.Title = fmt.Sprintf("a query on the standby that uses replication slot %q holds back vacuum by %d "+
			"transactions",
			h.Name, h.XminAge)
		f.Remedy = x.onStandby(h.Xmin)
	default:
		f.Title = fmt.Sprintf("replication slot %q holds back vacuum of %s by %d transactions", h.Name, what, h.XminAge)
		f.Remedy = Remedy{Do: "Start its consumer, or drop it if nobody needs it.",
			SQL: []string{fmt.Sprintf("SELECT pg_drop_replication_slot(%s);", postgres.Literal(h.Name))}}
	}
	return f
}

// onStandby ends the standby's queries whose horizon is fed back. The query with the oldest transaction is among them
// even if the standby lags behind and considers the transaction recent.
func (x *examination) onStandby(xmin string) Remedy {
	return Remedy{
		Do: "End the query on the standby, by the statement below, which is to be run there and not here. To prevent it, " +
			"turn hot_standby_feedback off there, or bound queries by statement_timeout.",
		SQL: []string{fmt.Sprintf("/* on the standby */ SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "+
			"backend_type = 'client backend' AND age(backend_xmin) >= least(%d, age('%s'::xid));", x.Thresholds.SlotAge,
			xmin)},
	}
}

func pidOf(h reaper.Holder) string {
	if h.PID == 0 {
		return ""
	}
	return fmt.Sprint(h.PID)
}

// orUnknown returns the first name that is not empty, or unknown.
func orUnknown(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return postgres.Name(t)
		}
	}
	return "unknown"
}

func inactiveSlots(ctx context.Context, x *examination) (all []Finding, err error) {
	type slot struct {
		Name, Type string
		Bytes      int64
	}
	list, err := listed[slot](ctx, x, "slots", "replication slots", x.Thresholds.SlotBytes)
	for _, s := range list {
		all = append(all, Finding{
			Title: fmt.Sprintf("replication slot %q has no consumer and retains %d MB of write-ahead log", s.Name,
				s.Bytes>>20),
			Evidence: []Evidence{evidence("name", s.Name, "type", s.Type, "wal_bytes", s.Bytes)},
			Remedy: Remedy{Do: "Start its consumer, or drop it if nobody needs it.",
				SQL: []string{fmt.Sprintf("SELECT pg_drop_replication_slot(%s);", postgres.Literal(s.Name))}},
		})
	}
	return all, err
}

func autovacuumOff(ctx context.Context, x *examination) (all []Finding, err error) {
	type setting struct{ Name string }
	list, err := readRows[setting](ctx, x, "vacuum_settings", nil)
	for _, s := range list {
		all = append(all, Finding{
			Title:    fmt.Sprintf("%s is off: the server vacuums and analyzes nothing", s.Name),
			Evidence: []Evidence{evidence("setting", s.Name)},
			Remedy: Remedy{Do: "Turn it on, as a superuser or in your provider's console.",
				SQL: []string{fmt.Sprintf("ALTER SYSTEM SET %s = on;", s.Name), "SELECT pg_reload_conf();"}},
		})
	}
	for _, t := range x.tables {
		if slices.ContainsFunc(t.Options, func(o string) bool {
			name, value, _ := strings.Cut(o, "=")
			return name == "autovacuum_enabled" && slices.Contains([]string{"off", "false", "no", "0"},
				strings.ToLower(value))
		}) {
			all = append(all, Finding{
				Table:    t.Name,
				Title:    fmt.Sprintf("%s: autovacuum is disabled for the table", t.Name),
				Evidence: []Evidence{evidence("table", t.Name, "dead_rows", t.Dead)},
				Remedy: Remedy{Do: "Enable it again.",
					SQL: []string{fmt.Sprintf("ALTER TABLE %s RESET (autovacuum_enabled);", t.Table())}},
				Fixable: true,
			})
		}
	}
	return all, err
}

// muchDead is how many times the autovacuum threshold a number of dead rows must be to be reported.
const muchDead = 10

func bloat(ctx context.Context, x *examination, t *table) ([]Finding, error) {
	if t.Dead < x.Thresholds.Dead || float64(t.Dead) < muchDead*t.Threshold || t.Vacuuming || t.Vacuumed != nil &&
		*t.Vacuumed < 2*60 {
		return nil, nil
	}
	why := "autovacuum is not keeping up"
	if held := x.readHolders(ctx); held.err == nil && slices.ContainsFunc(held.all, x.holds) {
		why = "vacuum is held back, see horizon-held"
	}
	last := "never"
	if t.Vacuumed != nil {
		last = rough(seconds(*t.Vacuumed)) + " ago"
	}
	return []Finding{{
		Title: fmt.Sprintf("%s: %d dead rows, vacuumed %s: %s", t.Name, t.Dead, last, why),
		Evidence: []Evidence{evidence("dead_rows", t.Dead, "autovacuum_at", int64(t.Threshold), "table_bytes", t.Bytes,
			"last_vacuum", last)},
		Remedy: Remedy{
			Do: "Vacuum the table, which blocks neither reads nor writes. Give autovacuum more workers or a lower " +
				"cost delay.",
			SQL: []string{fmt.Sprintf("VACUUM (ANALYZE) %s;", t.Table())},
		},
	}}, nil
}
