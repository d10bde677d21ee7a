//go:build unix

package evolve_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Versions of the invented migrations. The one of the index takes three numbers.
const (
	today    = 6
	column   = 7
	index    = 8
	function = 11 // and the version of the core
	contract = 13
)

// releases builds the program with the library as it is, and with the one of the future.
func releases(t *testing.T) (present, future string) {
	t.Helper()
	dir := t.TempDir()
	present, future = filepath.Join(dir, "present"), filepath.Join(dir, "future")
	build(t, present, "./release")
	build(t, future, "./release", "-overlay", overlay(t, dir, 1))
	return present, future
}

// doctorOf builds the command of the future, whose programs work with tables of the outbox from a version on.
func doctorOf(t *testing.T, oldest int) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "txwork")
	build(t, file, "github.com/txwork/txwork/cmd/txwork", "-overlay", overlay(t, dir, oldest))
	return file
}

func build(t *testing.T, file, program string, flags ...string) {
	t.Helper()
	args := append(append([]string{"build", "-o", file}, flags...), program)
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// overlay writes the files of the future, whose programs work with tables of the outbox from a version on, and the file
// by which the compiler finds them.
func overlay(t *testing.T, dir string, oldest int) string {
	t.Helper()
	replace := map[string]string{}
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root(t), name)] = file
	}
	migrations, err := filepath.Glob("testdata/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range migrations {
		put("migrations/sql/"+filepath.Base(file), read(t, file))
	}
	up, down := changedFunction(t)
	put("migrations/sql/011_outbox_announce.up.sql", up)
	put("migrations/sql/011_outbox_announce.down.sql", down)
	put("workqueue/spec_version.go", edited(t, "workqueue/spec_version.go", "SchemaVersion = 1\n\n	// Oldest",
		"SchemaVersion = 2\n\n	// Oldest"))
	put("outbox/spec.go", edited(t, "outbox/spec.go", "		Table:     \"outbox\",\n",
		fmt.Sprintf("		Table:     \"outbox\",\n		Version: 5, OldestTable: %d, OldestProgram: 4,\n", oldest)))
	put("migrations/catalog/objects.json", snapshot(t))
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// changedFunction is a migration that changes a trigger's function, and raises the version of the core.
func changedFunction(t *testing.T) (up, down string) {
	_, rest, _ := strings.Cut(read(t, filepath.Join(root(t), "migrations/sql/001_outbox.up.sql")),
		"CREATE FUNCTION \"{{schema}}\".\"outbox_announce\"()")
	body, _, found := strings.Cut(rest, "$txwork$;\n")
	if !found || !strings.Contains(body, "\nBEGIN\n") {
		t.Fatal("the outbox has no function that announces")
	}
	const comment = "\nCOMMENT ON TABLE \"{{schema}}\".\"outbox\" IS "
	down = "CREATE OR REPLACE FUNCTION \"{{schema}}\".\"outbox_announce\"()" + body + "$txwork$;\n\n" +
		"REVOKE ALL ON FUNCTION \"{{schema}}\".\"outbox_announce\"() FROM PUBLIC;\n"
	up = strings.Replace(down, "\nBEGIN\n", "\nBEGIN\n    PERFORM pg_catalog.pg_notify('evolved', TG_TABLE_NAME);\n", 1)
	return up + comment + "'txwork core 2 since 1, version 4 since 1';\n", down + comment +
		"'txwork core 1, version 3 since 1';\n"
}

// snapshot is the catalog that the migrations of the future make.
func snapshot(t *testing.T) string {
	text := edited(t, "migrations/catalog/objects.json", `"name":"outbox","facts":{"core version":"1"`,
		`"name":"outbox","facts":{"core version":"2, version 5 since 4"`)
	return text + `{"kind":"column","parent":"outbox","name":"tenant",` +
		`"facts":{"default":"'none'::text","NOT NULL":"yes","type":"text"}}
{"kind":"index","name":"outbox_tenant_idx","facts":{"definition":"CREATE INDEX outbox_tenant_idx ON {{schema}}.outbox ` +
		`USING btree (tenant) WHERE (tenant <> 'none'::text)","table":"outbox"}}
`
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// edited returns a file of the library in which something is replaced.
func edited(t *testing.T, name, old, replacement string) string {
	t.Helper()
	text := read(t, filepath.Join(root(t), name))
	if strings.Count(text, old) != 1 {
		t.Fatalf("%s has %q %d times", name, old, strings.Count(text, old))
	}
	return strings.Replace(text, old, replacement, 1)
}
