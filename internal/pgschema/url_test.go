package pgschema

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestWithSearchPath(t *testing.T) {
	t.Parallel()
	for connection, want := range map[string]string{
		"postgres://me@host/db":                                   "-csearch_path=t_1",
		"postgres://me@/db?host=%2Ftmp&sslmode=disable":           "-csearch_path=t_1",
		"postgresql://host/db?options=-c%20statement_timeout%3D5": "-c statement_timeout=5 -csearch_path=t_1",
		"host=/tmp dbname=db":                                     "-csearch_path=t_1",
	} {
		got, err := withSearchPath(connection, "t_1")
		if err != nil {
			t.Errorf("%s: %v", connection, err)
			continue
		}
		config, err := pgx.ParseConfig(got)
		if err != nil {
			t.Errorf("%s became %s: %v", connection, got, err)
			continue
		}
		if options := config.RuntimeParams["options"]; options != want {
			t.Errorf("%s became %s with options %q, want %q", connection, got, options, want)
		}
		if config.Host == "" || (config.Database != "db") {
			t.Errorf("%s became %s: host or database lost", connection, got)
		}
	}
}
