package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change string
		want   []string // nothing means valid
	}{
		"as migrated":            {"", nil},
		"a table of the app's":   {"CREATE TABLE app (id int); COMMENT ON TABLE app IS 'txwork it is not'", nil},
		"a custom table":         {"CREATE TABLE mine (id int); COMMENT ON TABLE mine IS 'txwork core 1'", nil},
		"an older custom table":  {"CREATE TABLE mine (id int); COMMENT ON TABLE mine IS 'txwork core 0'", []string{"table mine"}},
		"a newer custom table":   {"CREATE TABLE mine (id int); COMMENT ON TABLE mine IS 'txwork core 7'", []string{"table mine", "version 7", "upgrade the library"}},
		"a newer outbox":         {"COMMENT ON TABLE outbox IS 'txwork core 2'", []string{"table outbox", "upgrade the library"}},
		"an outbox not ours":     {"COMMENT ON TABLE outbox IS 'hello'", []string{"table outbox"}},
		"an outbox that is gone": {"DROP TABLE outbox", []string{"table outbox"}},
		"a pending migration":    {"DELETE FROM schema_version WHERE version_id = 2", []string{"002_leader is pending", "txwork migrate up"}},
		"nothing was migrated":   {"DROP TABLE schema_version", append(allPending(), "txwork migrate up")},
		"a newer library": {fmt.Sprintf("INSERT INTO schema_version (version_id, is_applied) VALUES (%d, true)", latest()+1),
			[]string{fmt.Sprintf("version %d", latest()+1), fmt.Sprintf("up to %d", latest()), "upgrade the library"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			m := newMigrator(t, db.Pool, db.Schema)
			up(t, m)
			exec(t, db.Pool, test.change)
			err := m.Validate(t.Context())
			if (err == nil) != (test.want == nil) || err != nil && !errors.Is(err, workqueue.ErrSchemaVersion) {
				t.Fatalf("%v", err)
			}
			for _, text := range test.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v\nlacks %q", err, text)
				}
			}
		})
	}
}

func allPending() (texts []string) {
	for _, m := range migrations.All() {
		texts = append(texts, m.Name+" is pending")
	}
	return texts
}

func TestValidateWithoutSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	schema := unmade(t, db)
	err := newMigrator(t, db.Pool, schema).Validate(t.Context())
	if !errors.Is(err, workqueue.ErrSchemaVersion) || !strings.Contains(err.Error(), schema) {
		t.Error(err)
	}
	if schemaExists(t, db.Pool, schema) {
		t.Error("validate made the schema")
	}
}
