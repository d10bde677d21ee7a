package txworktest

import (
	"io/fs"
	"regexp"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
)

// gooseDown is the line with which goose's files begin the other direction.
var gooseDown = regexp.MustCompile(`(?m)^--\s*\+goose\s+Down\b`)

// ours are statements with which the files of migrations.Export record their version.
var ours = regexp.MustCompile(`(?m)^INSERT INTO "[^"]+"\."schema_version" \(version_id`)

// Migrate applies an application's goose migrations to the schema: all SQL files at the top of a file system, such as
// os.DirFS("db/migrations"), in goose's order. It leaves out those that migrations.Export wrote, because they name
// txwork's schema, and [Schema] has made these tables in the test's own.
//
// The application's migrations must not name a schema either: the search_path leads to the test's.
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

// ownMigrations are the files that are not txwork's.
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
