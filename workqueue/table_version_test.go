package workqueue_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// A table and a program may have different versions. Only the message says which side is behind.
func TestVersionsOfTableAndProgram(t *testing.T) {
	t.Parallel()
	first := workqueue.Spec{Table: "parcels"}
	expanded := workqueue.Spec{Table: "parcels", Version: 2, OldestTable: 1, OldestProgram: 1}
	needing := workqueue.Spec{Table: "parcels", Version: 2, OldestProgram: 1}
	contracted := workqueue.Spec{Table: "parcels", Version: 3, OldestTable: 2, OldestProgram: 2}
	for name, c := range map[string]struct {
		table, program workqueue.Spec
		refused        []string // nothing: the program works with the table
		logged         string
	}{
		"an equal program":                       {first, first, nil, ""},
		"a program before an additive migration": {expanded, first, nil, ""},
		"a program before its table's migration": {first, expanded, nil, "a migration of the table is pending"},
		"a program that needs the migration": {first, needing, []string{"has version 1, this program needs 2",
			"run your own migration"}, ""},
		"a program from before the contraction": {contracted, first, []string{"has version 3",
			"serves version 2 and later, this program has 1", "upgrade the program"}, ""},
		"the program before the contraction": {contracted, expanded, nil, ""},
		"a program of the contraction, too early": {first, contracted, []string{"has version 1, this program needs 2",
			"run your own migration"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			c.table.Schema, c.program.Schema = db.Schema, db.Schema
			create(t, db, c.table)
			var logs bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&logs, nil))
			table, err := workqueue.Open(c.program, workqueue.Telemetry{Logger: logger})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				err = table.CheckVersion(t.Context(), db.Pool)
				if (err == nil) != (c.refused == nil) || err != nil && !errors.Is(err, workqueue.ErrSchemaVersion) {
					t.Fatalf("got %v", err)
				}
			}
			for _, text := range c.refused {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v lacks %q", err, text)
				}
			}
			if n := strings.Count(logs.String(), "level=WARN"); (n == 1) != (c.logged != "") ||
				!strings.Contains(logs.String(), c.logged) {
				t.Errorf("%d warnings:\n%s", n, &logs)
			}
		})
	}
}

// A bump of the core concerns no table of an application's own, as long as the table serves the program.
func TestABumpOfTheCore(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	table := create(t, db, workqueue.Spec{Schema: db.Schema, Table: "parcels", Version: 4})
	for comment, want := range map[string]string{
		"txwork core 2 since 1, version 4":                "",
		"txwork core 2 since 1, version 5 since 4; later": "",
		"txwork core 2, version 4":                        "has version 2 of the core, which serves version 2 and later, this library has 1: upgrade the library",
		"txwork core 0, version 4":                        "has version 0 of the core, this library needs 1",
	} {
		if _, err := db.Pool.Exec(t.Context(), "COMMENT ON TABLE parcels IS '"+comment+"'"); err != nil {
			t.Fatal(err)
		}
		err := table.CheckVersion(t.Context(), db.Pool)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", comment, err, want)
		}
	}
}
