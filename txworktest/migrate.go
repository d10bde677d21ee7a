package txworktest

import (
	"io/fs"
	"regexp"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
)

// gooseDown matches the annotation that begins the Down part of a goose file.
var gooseDown = regexp.MustCompile(`(?m)^--\s*\+goose\s+Down\b`)

// ours matches the statement by which files of migrations.Export record their version.
var ours = regexp.MustCompile(`(?m)^INSERT INTO "[^"]+"\."schema_version" \(version_id`)

// Migrate applies an application's goose migrations to the schema: all SQL files at the top of a file system, such as
// os.DirFS("db/migrations"), in goose's order. It leaves out those that migrations.Export wrote, because they name
// txwork's schema, and [Schema] has created these tables in the test's schema already.
//
// The application's migrations must not name a schema, because their tables have to be in the test's schema, to which
// the search_path is set.
func (db *DB) Migrate(t testing.TB, dir fs.FS) {
	t.Helper()
	own, err := ownMigrations(dir)
	if err != nil {
		t.Fatalf("txworktest: reading migrations: %v", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db.SQL(t), own)
	if err != nil {
		t.Fatalf("txworktest: migrations: %v", err)
	}
	if _, err := provider.Up(t.Context()); err != nil {
		t.Fatalf("txworktest: migrations: %v", err)
	}
}

// ownMigrations returns the files that are not txwork's.
func ownMigrations(dir fs.FS) (fstest.MapFS, error) {
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return nil, err
	}
	own := fstest.MapFS{}
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		if !ours.Match(text) {
			own[name] = &fstest.MapFile{Data: text}
		}
	}
	return own, nil
}
