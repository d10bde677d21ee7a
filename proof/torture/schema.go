//go:build unix

package torture

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"strings"
	"text/template"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/migrations"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var sqlTemplates = template.Must(template.ParseFS(sqlFiles, "sql/*.sql"))

func render(file string, data any) string {
	var text strings.Builder
	if err := sqlTemplates.ExecuteTemplate(&text, file, data); err != nil {
		panic(err) // the templates and their data are part of this package
	}
	return text.String()
}

// An audited table, with SQL expressions for the columns in which tables differ.
type audited struct {
	Schema, Table    string
	Name, Key        string
	Fire, Generation string
	Waiting          string // rows that their topic's lane has may be claimed
}

func auditedTables(schema string) []audited {
	return []audited{
		{schema, "outbox", "r.id::text", "r.concurrency_key", "NULL", "0", "r.waiting AND r.aside IS NULL"},
		{schema, "inbox", "r.message_id", "NULL", "NULL", "0", "r.waiting AND r.aside IS NULL"},
		{schema, "timers", `r."key"`, "NULL", "r.fire_at", "r.generation", "r.waiting"},
		{schema, "jobs", "r.id::text", "NULL", "NULL", "0", "r.waiting"},
	}
}

// install creates the library's tables as its users do, the oracle beside them, and what faults need.
func install(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	m, err := migrations.New(pool, migrations.Options{Schema: schema, Domains: migrations.Domains(),
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := m.Up(ctx); err != nil {
		return err
	}
	statements := []string{render("audit.sql", audited{Schema: schema}), render("refuse.sql", audited{Schema: schema}),
		render("log.sql", audited{Schema: schema})}
	for _, table := range auditedTables(schema) {
		statements = append(statements, render("trigger.sql", table))
	}
	for _, statement := range statements {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("installing the oracle: %w", err)
		}
	}
	return subscribe(ctx, pool, schema)
}
