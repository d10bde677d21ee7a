package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

// When it starts, an application brings the schema to the library's version. Other instances that start at the same
// time wait until that is done.
func ExampleMigrator_Up() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	m, err := migrations.New(pool, migrations.Options{})
	if err != nil {
		log.Fatal(err)
	}
	applied, err := m.Up(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range applied {
		fmt.Println(a.Name, "took", a.Duration)
	}
}

// An application that does not migrate itself checks the schema when it starts.
func ExampleMigrator_Validate() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	m, err := migrations.New(pool, migrations.Options{Schema: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	switch err := m.Validate(ctx); {
	case errors.Is(err, workqueue.ErrSchemaVersion):
		log.Fatal(err) // says what to do
	case err != nil:
		log.Print(err) // no database just now
	}
}

// An application keeps txwork's migrations in its own folder of goose migrations, and applies all of them from Go.
// After an upgrade of txwork, Export adds the new ones after the existing files. Production programs embed the folder.
func ExampleExport() {
	_, err := migrations.Export("db/migrations", migrations.FileOptions{
		Format:  migrations.Goose,
		Domains: []migrations.Domain{migrations.Reaper, migrations.Outbox, migrations.Jobs}, // default: all
	})
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL")) // import _ "github.com/jackc/pgx/v5/stdlib"
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	locker, err := lock.NewPostgresSessionLocker() // processes that start at the same time take turns
	if err != nil {
		log.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("db/migrations"),
		goose.WithSessionLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := provider.Up(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// A table of your own becomes one of the application's migrations.
func ExampleDDL() {
	text, err := migrations.DDL(workqueue.Spec{
		Schema:  "billing",
		Table:   "invoices",
		Columns: []workqueue.Column{{Name: "number", Type: "bigint", NotNull: true}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "-- +goose Up") || strings.HasPrefix(line, "-- +goose Down") ||
			strings.HasPrefix(line, "CREATE TABLE") {
			fmt.Print(line)
		}
	}
	// Output:
	// -- +goose Up
	// CREATE TABLE "billing"."invoices" (
	// -- +goose Down
}
