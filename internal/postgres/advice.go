package postgres

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Command returns a command line of txwork for a schema, in backticks. The default schema needs no flag.
func Command(schema string, args ...string) string {
	line := "`txwork " + strings.Join(args, " ")
	if schema != "" && schema != "txwork" {
		line += " --schema " + schema
	}
	return line + "`"
}

// ResumeTopic returns what ends the pause of a topic: the arguments of a command, none for a table that has no such
// command, and a statement.
func ResumeTopic(schema, table, lane, topic string) (args []string, statement string) {
	names, literals := []string{Shell(topic)}, Literal(topic)
	if lane != "" {
		names, literals = []string{Shell(lane), Shell(topic)}, Literal(lane)+", "+literals
	}
	if table == "outbox" || table == "inbox" {
		args = append([]string{table, "resume"}, names...)
	}
	return args, "SELECT " + pgx.Identifier{schema, table + "_resume"}.Sanitize() + "(" + literals + ");"
}

// domains are the domains of the migrations, by the first word of the names of their objects.
var domains = map[string]string{"outbox": "outbox", "inbox": "inbox", "timers": "timers", "alarms": "alarms",
	"jobs": "jobs", "leader": "reaper"}

// LogTable is the table of an outbox that is a log, and begins the names of all other objects of the domain log, which
// a schema has only if it was named.
const LogTable = "outbox_log"

// Bounds of a subscription of a log.
const (
	LogLanes       = 64
	LogMaxAge      = 7 * 24 * time.Hour
	LogMaxMessages = 1_000_000_000_000
)

const logDomain = "log"

// IsLog tells whether an object belongs to the domain log.
func IsLog(name string) bool { return name == LogTable || strings.HasPrefix(name, LogTable+"_") }

// migrated are the tables that the migrations make, without those beside another one.
var migrated = []string{"outbox", "inbox", "timers", "timers_schedule", "alarms", "jobs", "jobs_schedule", "leader",
	"process", "audit", LogTable, LogTable + "_parked"}

// DomainOf returns the domain of a table, or an empty string for one that the migrations do not make.
func DomainOf(table string) string {
	switch {
	case !slices.Contains(migrated, table):
		return ""
	case table == "process", table == "audit":
		return "reaper"
	case IsLog(table):
		return logDomain
	}
	first, _, _ := strings.Cut(table, "_")
	return domains[first]
}

// Migrated tells whether the migrations of the library make a table of that name.
func Migrated(table string) bool { return DomainOf(table) != "" }

// Migrate says what creates a table that is missing. A schema has the domains that were named when it was migrated, so
// the domain is named: without it, nothing would be pending.
func Migrate(schema, table string) string {
	domain := DomainOf(table)
	if domain == "" {
		return "run your own migration, which migrations.DDL returns for the table's Spec"
	}
	return migrate(schema, domain)
}

// migrate names both ways, since the second fails after the first: the tables exist then.
func migrate(schema, domain string) string {
	return "run " + Command(schema, "migrate", "up", "--domain", domain) + ", or your own migrations, if they have the " +
		"files of 'txwork migrate export'"
}

// rolePrefix is migrations.DefaultRolePrefix.
const rolePrefix = "txwork"

// A Grantee is a role that lacks rights on tables of a schema.
type Grantee struct {
	Role   string
	Member string // the role of `txwork roles` that it is, or is a member of, if it is of the kind that has the rights
	Tables string // those of the schema, with their qualities, as in "orders:keys:join outbox:keys:join"
}

// Fields are where the row of SelectGrantee is scanned to.
func (g *Grantee) Fields() []any { return []any{&g.Role, &g.Member, &g.Tables} }

// SelectGrantee is a statement that returns the fields of a Grantee, for the session's role, a kind of role such as
// worker, and a schema. It reads catalogues only, so that every role may run it.
const SelectGrantee = `SELECT current_user::text, coalesce((
	SELECT min(r.rolname::text) FROM pg_catalog.pg_roles AS r
	WHERE r.rolname LIKE '%\_' || $1::text AND pg_catalog.pg_has_role(r.oid, 'MEMBER')), ''), coalesce((
	SELECT string_agg(c.relname::text || (
		SELECT coalesce(string_agg(q.name, '' ORDER BY q.name DESC), '') FROM pg_catalog.pg_class AS s
		JOIN (VALUES ('_key_note', ':keys'), ('_join', ':join'), ('_topic', ':topics')) AS q (suffix, name)
			ON s.relname = c.relname || q.suffix
		WHERE s.relnamespace = c.relnamespace), ' ' ORDER BY c.relname)
	FROM pg_catalog.pg_class AS c
	JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
	WHERE n.nspname = $2::text::name AND c.relkind IN ('r', 'p') AND (c.relname IN ('alarms', 'leader')
		OR pg_catalog.obj_description(c.oid, 'pg_class') LIKE 'txwork core %')), '')`

// Grant says how the role gets the rights of a kind of role in a schema, which may have some of the domains only: the
// SQL of the others would fail. A role that has these rights cannot be granted them once more, and lacks only what the
// schema got since.
func (g Grantee) Grant(kind, schema string) string {
	name, args := rolePrefix+"_"+kind, []string{"roles"}
	if g.Member != "" && g.Member != name {
		name, args = g.Member, append(args, "--prefix", strings.TrimSuffix(g.Member, "_"+kind))
	}
	var has, own []string
	for table := range strings.FieldsSeq(g.Tables) {
		bare, _, _ := strings.Cut(table, ":")
		if domain := DomainOf(bare); domain == "" {
			own = append(own, "--table", table)
		} else if !slices.Contains(has, domain) {
			has = append(has, domain)
		}
	}
	var commands []string
	if len(has) > 0 || len(own) == 0 {
		line := slices.Clone(args)
		if len(has) < len(domains) || slices.Contains(has, logDomain) { // the default ones need no flag
			for _, domain := range has {
				line = append(line, "--domain", domain)
			}
		}
		commands = append(commands, Command(schema, line...))
	}
	if len(own) > 0 {
		commands = append(commands, Command(schema, slices.Concat(args, own)...))
	}
	again := "run the SQL that " + strings.Join(commands, " and ") + " prints"
	if g.Member != "" {
		return again + " again: the schema has something that role " + name + " may not use yet"
	}
	return again + ", then GRANT " + name + " TO " + pgx.Identifier{g.Role}.Sanitize()
}

// qualified finds the schema and the name of what PostgreSQL says is missing, in any language of its messages.
var (
	qualified = regexp.MustCompile(`\b([a-z_][a-z0-9_]*)\.([a-z_][a-z0-9_]*)`)
	lone      = regexp.MustCompile(`["«„]([a-z_][a-z0-9_]*)["»“]`)
)

// create says what creates the table, function or schema that a statement did not find.
func create(pg *pgconn.PgError) string {
	if pg.Code == "3F000" { // undefined schema
		if found := lone.FindStringSubmatch(pg.Message); found != nil {
			return "run " + Command(found[1], "migrate", "up") + ", or name the schema that has the tables"
		}
	}
	found := qualified.FindStringSubmatch(pg.Message)
	if found == nil {
		return "run your own migration, or `txwork migrate up`"
	}
	first, _, _ := strings.Cut(found[2], "_")
	domain := domains[first]
	if IsLog(found[2]) {
		domain = logDomain
	}
	if domain != "" {
		return migrate(found[1], domain) + "; or name the schema that has the tables"
	}
	return "run your own migration of schema " + found[1]
}
