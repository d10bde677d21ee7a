package main

// looks count what an attacker sees of another tenant.
var looks = map[string]string{
	"a look at jobs":        "jobs WHERE queue = 'globex'",
	"a look at notes":       "jobs_key_note",
	"a look at keys":        "jobs_key_state",
	"a look at sweeps":      "jobs_key_cursor",
	"a look at batches":     "jobs_join WHERE label = 'the secret of globex'",
	"a look at members":     "jobs_join_member WHERE join_id = '{batch}'",
	"a look at settles":     "jobs_join_note",
	"a look at errors":      "jobs_attempt",
	"a look at results":     "jobs_step",
	"a look at schedules":   "jobs_schedule WHERE name = 'globex:pulse'",
	"a look at messages":    "outbox WHERE topic = 'globex:mail'",
	"a look at rows aside":  "outbox_topics() WHERE aside > 0",
	"a look at other state": "outbox_topic WHERE topic <> 'globex:mail'",
}

// statements are attacks in SQL. {job} is a job of the victim that runs, with its {token}; {batch} is its batch, and
// {after} the job that the batch releases.
var statements = map[string]string{
	"a deletion": "DELETE FROM jobs WHERE id = '{job}'",
	"an ack":     "UPDATE jobs SET status = 2, completed_at = now() WHERE id = '{job}'",
	"an ack by function": "SELECT FROM jobs_ack('{token}', ARRAY['{job}'::uuid]) " +
		"WHERE result NOT IN ('lost', 'gone')",
	"a job moved to globex":   "UPDATE jobs SET queue = 'globex' WHERE queue = 'acme'",
	"a job with another key":  insert + "concurrency_key, key_limit) " + job + "'globex:press', 0)",
	"a foreign occurrence":    insert + "schedule) " + job + "'globex:pulse')",
	"a schedule that is gone": "DELETE FROM jobs_schedule WHERE name = 'globex:pulse'",
	"a schedule that waits":   "UPDATE jobs_schedule SET due_at = 'infinity' WHERE name = 'globex:pulse'",

	"a note of a key": "INSERT INTO jobs_key_note (at, concurrency_key, limited, ended) " +
		"VALUES (now(), 'globex:ink', true, 9)",
	"notes that are gone": "DELETE FROM jobs_key_note",
	"keys that are gone":  "DELETE FROM jobs_key_state",
	"a fold":              "CALL jobs_fold()",
	"a fold of keys":      "SELECT jobs_key_fold(1000)",
	"a sweep of keys":     "SELECT jobs_key_sweep(1000)",

	"a step of a batch": "INSERT INTO jobs_join_member (member_id, join_id) SELECT id, '{batch}' FROM jobs LIMIT 1",
	"a settled step":    "INSERT INTO jobs_join_note (member_id, gone) VALUES ('{job}', 1)",
	"a batch before a job": "INSERT INTO jobs_join (id, on_complete, expected, retention) " +
		"VALUES (gen_random_uuid(), '{after}', 0, '1h')",
	"a batch that ends":  "UPDATE jobs_join SET status = 3, completed_at = now() WHERE id = '{batch}'",
	"a fold of batches":  "SELECT jobs_join_fold(1000)",
	"a sweep of batches": "SELECT jobs_join_sweep(1000)",
	"a purge of batches": "SELECT jobs_join_purge('0')",

	"a forged history": "INSERT INTO jobs_attempt (job_id, attempt, ended_at, outcome) " +
		"VALUES ('{job}', 1, now(), 'failed')",
	"a forged result":       "INSERT INTO jobs_step (job_id, name, result) VALUES ('{job}', 'forged', '1')",
	"results that are gone": "DELETE FROM jobs_step",

	"a limit that is lifted": "UPDATE jobs_queue SET max_running = 1000 WHERE name = 'globex'",
	"a pause":                "UPDATE jobs_queue SET paused = true WHERE name = 'globex'",
	"a slot that is freed":   "DELETE FROM jobs_slot",
	"a slot that is taken":   "INSERT INTO jobs_slot (job_id, queue) VALUES (gen_random_uuid(), 'globex')",
	"a slot by function":     "SELECT jobs_take('globex', ARRAY[gen_random_uuid()], NULL)",
	"a sweep of slots":       "SELECT jobs_slot_sweep(1000)",

	"a pause by hand":            "INSERT INTO outbox_topic (topic, paused) VALUES ('globex:post', true)",
	"a pause by function":        "SELECT outbox_pause('globex:post')",
	"a resume by hand":           "UPDATE outbox_topic SET paused = false",
	"a resume by function":       "SELECT outbox_resume('globex:mail')",
	"a state that is gone":       "DELETE FROM outbox_topic",
	"messages set aside":         "UPDATE outbox SET waiting = true, aside = true WHERE topic <> 'acme:mail'",
	"messages taken from a lane": "UPDATE outbox SET waiting = false, aside = NULL WHERE topic <> 'acme:mail'",
	"a message moved to globex":  "UPDATE outbox SET topic = 'globex:mail'",
	"a claim by function": "SELECT FROM outbox_fetch('00000000-002a-8000-8000-000000000000', " +
		"'60 s', 10) WHERE entry = 'row'",
	"a claim from a lane": "SELECT FROM outbox_claim_by_topic(gen_random_uuid(), '1 minute', 10, " +
		"ARRAY['-infinity'::timestamptz], ARRAY['00000000-0000-0000-0000-000000000000'::uuid], '{}', " +
		"'{globex:mail}', '{-infinity}', '{00000000-0000-0000-0000-000000000000}', '{10}', true) " +
		"WHERE kind IN (1, 2, 4, 5)",
	"no policies of topics": "SELECT outbox_topic_policies()",

	"maintenance":           "CALL jobs_maintain()",
	"no policies":           "SELECT jobs_policies()",
	"no row-level security": "ALTER TABLE jobs DISABLE ROW LEVEL SECURITY",
}

// A job of the attacker's own begins with these.
const (
	insert = "INSERT INTO jobs (kind, queue, priority, args, "
	job    = "VALUES ('print', 'acme', 2, '', "
)
