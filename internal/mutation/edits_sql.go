package main

// What should notice that several of them are gone.
var (
	limiting   = beside("workqueue/gate", "TestWriters|TestSerial|TestRowsOf|TestLimit")
	joining    = beside("workqueue/join", "TestLastTwo|TestConcurrent|TestStart|TestAddMeets")
	receiving  = beside("inbox", "TestBegin|TestBodies")
	setting    = beside("timers", "TestASetting|TestSetting|WhileItFires|DuringOneFiring")
	admitting  = beside("jobs", "TestALimit|TestAPause|TestClaims")
	leading    = beside("reaper", "TestElection|TestStale|TestTerm|TestOneLeads")
	scheduling = test("workqueue/periodic", "TestAChangeWhileADead")
)

// sqlEdits are what statements say beside their conditions: the effects that the invariants rest on.
var sqlEdits = []edit{
	{name: "attempts are not counted at the claim", file: "workqueue/sql/claim.sql",
		old: "attempts = t.attempts + 1", new: "attempts = t.attempts", suites: core("claim|waiting")},
	{name: "the limit over all lanes is gone", file: "workqueue/sql/claim.sql",
		old: "    LIMIT @batch_size::int))", new: "    ))", suites: core("claim|waiting")},
	{name: "a reaped row keeps its token", file: "workqueue/sql/reap_expired.sql",
		old: "        owner_token = NULL,\n", new: "", suites: core("lease")},
	{name: "attempts that are used up do not end a reaped row", file: "workqueue/sql/reap_expired.sql",
		old: "t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL", new: "t.cancelled_at IS NOT NULL", suites: core("lease")},
	{name: "a cancel does not end a reaped row", file: "workqueue/sql/reap_expired.sql",
		old: "t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL", new: "t.attempts >= t.max_attempts", suites: core("lease")},
	{name: "attempts that are used up do not end an abandoned row", file: "workqueue/sql/abandon.sql",
		old: "t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL", new: "t.cancelled_at IS NOT NULL", suites: core("settle")},
	{name: "a cancel does not end an abandoned row", file: "workqueue/sql/abandon.sql",
		old: "t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL", new: "t.attempts >= t.max_attempts", suites: core("settle")},
	{name: "a snooze keeps the attempt", file: "workqueue/sql/snooze.sql",
		old: "ELSE t.attempts - 1 END", new: "ELSE t.attempts END", suites: core("settle")},
	{name: "a cancel does not end a snoozed row", file: "workqueue/sql/snooze.sql",
		old: `retry "t.cancelled_at IS NOT NULL"`, new: `retry "false"`, suites: core("settle")},
	{name: "a redriven row keeps its attempts", file: "workqueue/sql/redrive.sql",
		old: "        attempts = 0,\n", new: "", suites: core("operator")},
	{name: "a redriven row keeps its token", file: "workqueue/sql/redrive.sql",
		old: "        owner_token = NULL,\n", new: "", suites: core("operator")},
	{name: "a cancelled Ready row keeps its token", file: "workqueue/sql/cancel.sql",
		old: "owner_token = CASE WHEN t.status = 1 THEN t.owner_token END", new: "owner_token = t.owner_token", suites: core("operator")},
	{name: "a renewal does not look at the status", file: "workqueue/sql/extend.sql",
		old:    " AND coalesce(r.status = 1, false)\n    FOR NO KEY UPDATE OF r SKIP LOCKED\n) AS held\nWHERE t.id = held.id AND t.status = 1",
		new:    "\n    FOR NO KEY UPDATE OF r SKIP LOCKED\n) AS held\nWHERE t.id = held.id",
		suites: core("lease")},
	{name: "a past due time stays in the past", file: "workqueue/shape.go",
		old: `"greatest(%s, now())"`, new: `"coalesce(%s, now())"`, suites: core("insert")},
	{name: "inserts are not announced", file: "workqueue/sql/table.sql",
		old: "    PERFORM {{.Announce}};\n", new: "", suites: core("table")},
	{name: "PUBLIC may execute", file: "workqueue/sql/function.sql",
		old: "REVOKE ALL ON FUNCTION {{.Function}}({{.Types}}) FROM PUBLIC;", new: "", suites: core("table")},
	{name: "a stale settle looks applied", file: "workqueue/sql/classify.sql",
		old: "coalesce(t.owner_token = s.token, false)", new: "t.id IS NOT NULL", suites: core("settle")},

	{name: "a serial key has no lock of its writers", file: "workqueue/gate/sql/gate.up.sql",
		old: "        PERFORM pg_advisory_xact_lock({{.WriterLock \"NEW.gate_key\"}});\n", new: "        NULL;\n", suites: limiting},
	{name: "a serial key may have two live rows", file: "workqueue/gate/sql/gate.up.sql",
		old: "CREATE UNIQUE INDEX {{.Constraint \"gate_one_idx\"}}", new: "CREATE INDEX {{.Constraint \"gate_one_idx\"}}", suites: limiting},
	{name: "promoters of a key do not take turns", file: "workqueue/gate/sql/gate.up.sql",
		old: "NOT pg_try_advisory_xact_lock({{.PromoterLock \"k\"}})\n", new: "false\n", suites: limiting},
	{name: "stricter isolation enters at once", file: "workqueue/gate/sql/gate.up.sql",
		old: "        OR current_setting('transaction_isolation') <> 'read committed'\n", new: "", suites: limiting},
	{name: "another body is a duplicate", file: "inbox/sql/begin.sql",
		old: "               WHEN t.body_hash <> $4 THEN 'hash_mismatch'\n", new: "", suites: receiving},
	{name: "a firing timer is overwritten", file: "timers/sql/set.sql",
		old: "fire_at = CASE WHEN t.status = 1 THEN t.fire_at ELSE h.fire_at END", new: "fire_at = h.fire_at", suites: setting},
	{name: "the generation stays", file: "timers/sql/set.sql",
		old: "generation = t.generation + 1", new: "generation = t.generation", suites: setting},
	{name: "what was set during a firing is lost", file: "timers/sql/set.sql",
		old: "rearm_at = CASE WHEN t.status = 1 THEN h.fire_at END", new: "rearm_at = NULL", suites: setting},
	{name: "a step that is on record is recorded anew", file: "jobs/sql/put_step.sql",
		old: "ON CONFLICT (job_id, name) DO NOTHING", new: "ON CONFLICT (job_id, name) DO UPDATE SET result = excluded.result",
		suites: beside("jobs", "TestSteps|TestAStep")},
	{name: "no new term for a new leader", file: "reaper/sql/elect.sql",
		old: "l.term + CASE WHEN l.holder = $2::uuid THEN 0 ELSE 1 END", new: "l.term", suites: leading},
	{name: "a pause moves a schedule that is held", file: "workqueue/periodic/sql/pause.sql",
		old:    "CASE WHEN t.status = 1 THEN t.due_at ELSE '9999-12-31 00:00:00+00' END",
		new:    "'9999-12-31 00:00:00+00'",
		suites: scheduling},
	{name: "the end of a pause moves a schedule that is held", file: "workqueue/periodic/sql/resume.sql",
		old:    "CASE WHEN t.status = 1 THEN t.due_at ELSE greatest($3::timestamptz, now()) END",
		new:    "greatest($3::timestamptz, now())",
		suites: scheduling},
	{name: "a change moves a schedule that is held", file: "workqueue/periodic/sql/put.sql",
		old: "t.status = 1 OR t.paused", new: "t.paused", suites: scheduling},
}
