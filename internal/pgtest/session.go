package pgtest

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgschema"
)

// Environment variables that change how the pools of all tests reach the server. The script .ci/versions sets them.
const (
	// ExecModeEnv is pgx's default_query_exec_mode, such as "exec". A test that chooses a mode itself keeps it.
	ExecModeEnv = "TXWORK_TEST_EXEC_MODE"

	// PoolerEnv is the host:port of a PgBouncer in front of the server that TXWORK_DATABASE_URL names. It has to accept
	// every role of the server. DB.URL still names the server itself, since a listener needs it.
	PoolerEnv = "TXWORK_TEST_POOLER"
)

// configured wraps the options of a test in those of the environment: the test may override the mode, but the pooler
// has to be applied after all settings.
func configured(t testing.TB, options []Option) (steps []func(*pgxpool.Config)) {
	t.Helper()
	if mode := os.Getenv(ExecModeEnv); mode != "" {
		steps = append(steps, inMode(t, mode))
	}
	steps = append(steps, collect(options).configurePool...)
	if pooler := os.Getenv(PoolerEnv); pooler != "" {
		steps = append(steps, throughPooler(t, pooler))
	}
	return steps
}

func inMode(t testing.TB, mode string) func(*pgxpool.Config) {
	t.Helper()
	parsed, err := pgx.ParseConfig("default_query_exec_mode=" + mode)
	if err != nil {
		t.Fatalf("test schema: %s: %v", ExecModeEnv, err)
	}
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = parsed.DefaultQueryExecMode }
}

// throughPooler connects a pool to PgBouncer. PgBouncer refuses settings in the startup message, including the
// search_path, and a SET would affect any later user of the session. The settings are therefore stored in a role that
// the pool logs in as.
func throughPooler(t testing.TB, address string) func(*pgxpool.Config) {
	t.Helper()
	pooler, err := pgx.ParseConfig("postgres://" + address + "/?sslmode=disable")
	if err != nil {
		t.Fatalf("test schema: %s: %v", PoolerEnv, err)
	}
	return func(c *pgxpool.Config) {
		conn := c.ConnConfig
		role := newRole(t, conn)
		conn.User, conn.RuntimeParams = role, map[string]string{}
		conn.Host, conn.Port, conn.Fallbacks, conn.TLSConfig = pooler.Host, pooler.Port, nil, nil
	}
}

// newRole creates a role whose sessions are like those of conn: it has their settings, and what they create belongs to
// conn's user, so that the role can be dropped while those objects exist. Its name begins with that user's name,
// because tests look for that name where txwork records who did something.
func newRole(t testing.TB, conn *pgx.ConnConfig) string {
	t.Helper()
	owner, name := conn.Copy(), conn.User+"_"+strings.ToLower(rand.Text())
	role := pgx.Identifier{name}.Sanitize()
	statements := []string{
		"CREATE ROLE " + role + " LOGIN SUPERUSER",
		"ALTER ROLE " + role + " SET role = " + quote(owner.User),
	}
	for setting, value := range startupSettings(conn) {
		statements = append(statements, "ALTER ROLE "+role+" SET "+setting+" = "+quote(value))
	}
	execute(t, owner, statements...)
	t.Cleanup(func() { execute(t, owner, "DROP ROLE "+role) })
	return name
}

// startupSettings are the settings with which a session of conn starts: its parameters, and those within "options".
func startupSettings(conn *pgx.ConnConfig) map[string]string {
	settings := map[string]string{}
	for name, value := range conn.RuntimeParams {
		if name != "options" {
			settings[name] = value
		}
	}
	for option := range strings.FieldsSeq(conn.RuntimeParams["options"]) {
		name, value, _ := strings.Cut(strings.TrimPrefix(option, "-c"), "=")
		settings[name] = value
	}
	return settings
}

func quote(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

// execute runs statements without the run-time parameters that the test has set for its pool.
func execute(t testing.TB, config *pgx.ConnConfig, statements ...string) {
	t.Helper()
	config = config.Copy()
	config.RuntimeParams = map[string]string{}
	pgschema.Execute(t, config, statements...)
}
