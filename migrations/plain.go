package migrations

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SQL is everything that [Migrator.Up] does to a database without txwork, as plain SQL: for psql, Atlas
// and whoever reviews it. It records the versions too, so that [Migrator.Up] can take over later. The
// empty schema is [workqueue.DefaultSchema].
//
// The text leaves the transaction to whoever runs it. With psql:
//
//	psql -v ON_ERROR_STOP=1 --single-transaction -f txwork.sql "$DATABASE_URL"
func SQL(schema string) (string, error) {
	schema, err := schemaOrDefault(schema)
	if err != nil {
		return "", err
	}
	all := load(schema)
	parts := []string{sqlHeader(schema, all[len(all)-1].version), prologue(schema)}
	for _, m := range all {
		parts = append(parts, "-- Migration "+m.name+"\n\n"+m.up, recordVersion(schema, m.version))
	}
	return strings.Join(parts, "\n"), nil
}

func sqlHeader(schema string, version int64) string {
	return fmt.Sprintf(`-- txwork: schema %q with all migrations up to version %d. Run it in one transaction:
--     psql -v ON_ERROR_STOP=1 --single-transaction -f FILE "$DATABASE_URL"
`, schema, version)
}

// FS is a directory of the migrations in the layout of golang-migrate: pairs NNN_name.up.sql and
// NNN_name.down.sql. Like [SQL] they record the versions in the schema's own table. The empty schema is
// [workqueue.DefaultSchema].
func FS(schema string) (fs.FS, error) {
	schema, err := schemaOrDefault(schema)
	if err != nil {
		return nil, err
	}
	return directory(pairs(schema))
}

func pairs(schema string) []file {
	var pairs []file
	for i, m := range load(schema) {
		begin, end := "", fmt.Sprintf("DELETE FROM %s WHERE version_id = %d;\n", versionTableName(schema), m.version)
		if i == 0 {
			begin, end = prologue(schema)+"\n", dropVersionTable(schema)
		}
		pairs = append(pairs,
			file{m.name + ".up.sql", begin + m.up + "\n" + recordVersion(schema, m.version)},
			file{m.name + ".down.sql", m.down + end})
	}
	return pairs
}

func dropVersionTable(schema string) string { return "DROP TABLE " + versionTableName(schema) + ";\n" }

// Export writes what [FS] holds into a directory, which it makes if necessary. After an upgrade of the
// library it adds the new files. A file that is there with another content is an error, and then
// nothing is written.
func Export(schema, dir string) error {
	schema, err := schemaOrDefault(schema)
	if err != nil {
		return err
	}
	missing, err := missingFrom(dir, pairs(schema))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("txwork: export: %w", err)
	}
	for _, f := range missing {
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o644); err != nil {
			return fmt.Errorf("txwork: export: %w", err)
		}
	}
	return nil
}

func missingFrom(dir string, files []file) (missing []file, err error) {
	for _, f := range files {
		name := filepath.Join(dir, f.name)
		there, err := os.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, f)
		case err != nil:
			return nil, fmt.Errorf("txwork: export: %w", err)
		case !bytes.Equal(there, []byte(f.text)):
			return nil, fmt.Errorf("txwork: export: %s has another content: it was edited, or made for another schema; nothing was written", name)
		}
	}
	return missing, nil
}
