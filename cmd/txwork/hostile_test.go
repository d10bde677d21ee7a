package main

import (
	"strings"
	"testing"
)

// hostile is what somebody may write into a row to steer a terminal, to forge a line, or to turn the direction of text.
const hostile = "a\x1b[2J\x1b]0;owned\x07\rforged\u202e\u2066b"

// Nothing that a row says steers the terminal of whoever looks at it, by whichever command.
func TestNoCommandIsSteeredByRows(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("migrate", "up", "--domain", "log").ok()
	const states = `CASE WHEN n > 0 THEN 1 ELSE 0 END, n, CASE WHEN n = 1 THEN now() + interval '1 hour' END,
		CASE WHEN n = 1 THEN '0199a1b2-c3d4-4000-8000-000000000000'::uuid END, CASE WHEN n > 1 THEN now() END,
		CASE WHEN n = 3 THEN now() END, CASE WHEN n = 3 THEN $1 END FROM generate_series(0, 3) AS n`
	const columns = "attempts, status, locked_until, owner_token, completed_at, failed_at, last_error"
	for _, statement := range []string{
		`INSERT INTO outbox (topic, payload, headers, ` + columns + `)
			SELECT $1, '', jsonb_build_object($1::text, $1::text), ` + states,
		`INSERT INTO outbox (topic, concurrency_key, key_limit, key_policy, payload)
			SELECT $1, $1, 0, 1, '' FROM generate_series(1, 2)`,
		`INSERT INTO inbox (consumer, source, message_id, topic, ` + columns + `)
			SELECT left($1, 20), left($1, 20), n || left($1, 20), $1, ` + states,
		`INSERT INTO timers (key, topic, payload, fire_at, generation, ` + columns + `)
			SELECT n || $1, $1, '', now(), 1, ` + states,
		`INSERT INTO jobs (kind, queue, priority, args, ` + columns + `)
			SELECT left($1, 20), left($1, 20), 2, '', ` + states,
		`INSERT INTO jobs_queue (name, paused) VALUES (left($1, 20), true)`,
		`INSERT INTO jobs_join (id, label, expected, retention)
			VALUES (gen_random_uuid(), $1, 1, interval '1 day')`,
		`INSERT INTO audit (who, origin, action, event, verb, target, about, rows)
			VALUES ($1, $1, gen_random_uuid(), 'done', left($1, 20), left($1, 20),
				jsonb_build_object($1::text, $1::text), 1)`,
		`SELECT outbox_pause($1)`,
		`SELECT outbox_log_subscribe('search', topics => ARRAY[$1])`,
	} {
		var args []any
		if strings.Contains(statement, "$1") {
			args = []any{hostile}
		}
		_, err := c.db.Pool.Exec(t.Context(), statement, args...)
		must(t, err)
	}
	commands := []string{"stats", "top --once", "doctor", "audit", "keys outbox", "joins jobs", "jobs queues",
		"jobs list", "timers list", "schedules list", "outbox topics", "inbox topics", "subscriptions list",
		"stats outbox_log", "migrate status", "migrate validate"}
	for _, table := range []string{"outbox", "inbox", "timers", "jobs"} {
		for _, state := range []string{"ready", "waiting", "in_progress", "done", "failed"} {
			commands = append(commands, "list "+table+" --status "+state)
		}
		var ids []string
		must(t, c.db.Pool.QueryRow(t.Context(), "SELECT array_agg(id::text) FROM "+table).Scan(&ids))
		for _, id := range ids {
			commands = append(commands, "show "+table+" "+id)
		}
	}
	shown := 0
	for _, command := range commands {
		r := c.run(strings.Fields(command)...)
		all := r.stdout + r.stderr
		if i := strings.IndexAny(all, "\x1b\x07\r\u202e\u2066"); i >= 0 {
			t.Errorf("%s prints %q", command, all[max(0, i-40):min(len(all), i+40)])
		}
		if strings.Contains(all, `\x1b[2J`) {
			shown++
		}
		if r.code == exitUsage {
			t.Errorf("%s: %s", command, r.stderr)
		}
	}
	if shown < 20 {
		t.Errorf("only %d of %d commands show what the rows say", shown, len(commands))
	}
}
