package postgres

import (
	"regexp"
	"slices"
	"strings"

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

// domains are the domains of the migrations, by the first word of the names of their objects.
var domains = map[string]string{"outbox": "outbox", "inbox": "inbox", "timers": "timers", "alarms": "alarms",
	"jobs": "jobs", "leader": "reaper"}

// migrated are the core tables that the migrations make.
var migrated = []string{"outbox", "inbox", "timers", "timers_schedule", "jobs", "jobs_schedule"}

// Migrate says what creates a table that is missing. A schema has the domains that were named when it was migrated, so
// the domain is named: without it, nothing would be pending.
func Migrate(schema, table string) string {
	if !slices.Contains(migrated, table) {
		return "run your own migration, which `txwork table new` prints"
	}
	domain, _, _ := strings.Cut(table, "_")
	return "run " + Command(schema, "migrate", "up", "--domain", domain)
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
	if found := qualified.FindStringSubmatch(pg.Message); found != nil {
		first, _, _ := strings.Cut(found[2], "_")
		if domain := domains[first]; domain != "" {
			return "run " + Command(found[1], "migrate", "up", "--domain", domain)
		}
	}
	return "run your own migration, or `txwork migrate up`"
}
