package survey

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A Process is what a process says of itself, see docs/sql.md.
type Process struct {
	ID                      string // as owner tokens begin with it
	Host, Language, Version string
	Serves                  string  // JSON
	Beat                    float64 // how many seconds ago it said so
}

// ProcessOf is the id of the process that made an owner token: its first 48 bits.
func ProcessOf(token string) string { return strings.ReplaceAll(token[:min(len(token), 13)], "-", "") }

// Processes returns, by their ids, those of the processes of owner tokens that run and say so. There is none if the
// schema has no table of them, or the role may not read it.
func Processes(ctx context.Context, r Reader, schema string, tokens ...string) (map[string]Process, error) {
	all, err := registered(ctx, r, schema, "processes", tokens)
	found := map[string]Process{}
	for _, p := range all {
		found[p.ID] = p
	}
	return found, err
}

// AllProcesses returns at most limit of the processes that run and say so, by their hosts.
func AllProcesses(ctx context.Context, r Reader, schema string, limit int) ([]Process, error) {
	return registered(ctx, r, schema, "all_processes", limit)
}

// registered reads the table of processes, if there is one that the role may read.
func registered(ctx context.Context, r Reader, schema, file string, of any) ([]Process, error) {
	table := pgx.Identifier{schema, "process"}.Sanitize()
	readable, err := Rows[struct{ Is *bool }](ctx, r, "SELECT has_table_privilege(to_regclass($1::text), 'SELECT')", table)
	if err != nil || readable[0].Is == nil || !*readable[0].Is {
		return nil, err
	}
	return rows[Process](ctx, r, file, table, of)
}
