package main

import (
	"strings"
	"testing"
)

// One row in the way, or one table that fails, is skipped and named; all other rows and tables are maintained, those
// that come later in the alphabet too. The exit code tells, and so does doctor, which does not advise to start a
// reaper.
func TestReapSkipsWhatIsInTheWay(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec(`INSERT INTO {schema}.jobs (kind, queue, priority, args, status, attempts, completed_at)
		SELECT 'k', 'default', 2, '{}', 2, 1, now() - interval '90 days' FROM generate_series(1, 30);
		CREATE TABLE {schema}.invoice AS SELECT id AS job FROM {schema}.jobs LIMIT 1;
		ALTER TABLE {schema}.invoice ADD FOREIGN KEY (job) REFERENCES {schema}.jobs;
		INSERT INTO {schema}.outbox (topic, payload, status, attempts, owner_token, locked_until)
		VALUES ('t', '', 1, 1, gen_random_uuid(), now() - interval '1 hour');
		CREATE FUNCTION {schema}.no() RETURNS trigger LANGUAGE plpgsql
		AS $$ BEGIN RAISE 'refused' USING ERRCODE = '42501'; END $$;
		CREATE TRIGGER no BEFORE UPDATE ON {schema}.inbox EXECUTE FUNCTION {schema}.no()`)
	r := c.run("reap", "--json").exits(exitFailure)
	all := decode[reaped](r)
	if len(all.Tables) < 6 || !strings.Contains(all.Error, "invoice") {
		t.Errorf("%d tables, error %q; want all, and the row in the way", len(all.Tables), all.Error)
	}
	for _, got := range all.Tables {
		switch strings.TrimPrefix(got.Table, c.db.Schema+".") {
		case "jobs":
			if got.Skipped != 1 || got.PurgedDone != 29 || len(got.Rows) != 1 ||
				!strings.Contains(got.Rows[0].Error, "invoice") {
				t.Errorf("%+v, want one skipped row and 29 deleted", got)
			}
		case "inbox":
			if !strings.Contains(got.Error, "refused") {
				t.Errorf("%+v, want the error of the table", got)
			}
		case "outbox":
			if got.Requeued != 1 || got.Error != "" {
				t.Errorf("%+v, want one requeued row", got)
			}
		}
	}
	c.run("reap", "jobs").exits(exitFailure).says("invoice").prints("1 rows skipped")
	d := c.doctor()
	d.prints("The maintenance of jobs does not do all").prints("Mend the maintenance").prints("invoice")
	if strings.Contains(strings.ToLower(d.stdout), "start a reaper") {
		t.Errorf("doctor advises to start a reaper:\n%s", d.stdout)
	}
}

// A role that sees a part of the rows maintains what it sees, and is told for each table that this is not all, also for
// one without keys and joins. It is not noted that the table was maintained.
func TestReapUnderRowLevelSecurity(t *testing.T) {
	c := newMigratedCLI(t)
	tenant := c.role(workerRights)
	for _, table := range []string{"outbox", "timers"} {
		c.exec("ALTER TABLE {schema}." + table + " ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON {schema}." + table +
			" USING (topic = 'mine')")
	}
	c.exec(`INSERT INTO {schema}.outbox (topic, payload, status, attempts, owner_token, locked_until)
		SELECT t, '', 1, 1, gen_random_uuid(), now() - interval '1 hour' FROM unnest(ARRAY['mine', 'theirs']) AS u (t)`)
	all := decode[reaped](tenant.run("reap", "--json").exits(exitFailure))
	for _, got := range all.Tables {
		name := strings.TrimPrefix(got.Table, c.db.Schema+".")
		if hidden := name == "outbox" || name == "timers"; hidden != strings.Contains(got.Error, "row-level security") {
			t.Errorf("%+v, want an error about row-level security: %t", got, hidden)
		}
		if name == "outbox" && got.Requeued != 1 {
			t.Errorf("%+v, want one requeued row", got)
		}
	}
	tenant.run("reap", "timers").exits(exitFailure).says("row-level security hides rows")
	tenant.run("reap", "inbox").ok()
	c.run("reap", "outbox").ok()
}
