package security_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// verbs are the functions of operators, by the end of their names.
var verbs = []string{"run_now", "reschedule", "redrive", "cancel", "discard", "delete"}

// An operator decides about rows of every table, in every state, with the triggers of their domains.
func TestAnOperatorDecidesAboutRows(t *testing.T) {
	f := newFixture(t)
	f.enqueueEverywhere(f.db.Pool)
	operator := f.as("operator")
	for table := range queues {
		f.exec(f.db.Pool, "UPDATE "+table+" SET status = 0, attempts = 0, locked_until = NULL, completed_at = NULL, "+
			"failed_at = NULL, cancelled_at = NULL")
		ids := ask[[]uuid.UUID](f, "SELECT array_agg(id) FROM "+table)
		changed := func(call string, want int) {
			t.Helper()
			var n int
			must(t, operator.QueryRow(t.Context(), "SELECT count(*) FROM "+table+"_"+call+" AS v WHERE v.changed",
				ids).Scan(&n))
			if n != want {
				t.Errorf("%s_%s changes %d rows, want %d", table, call, n, want)
			}
		}
		changed("reschedule($1, '2040-01-01')", len(ids))
		changed("run_now($1)", len(ids))
		changed("cancel($1, 'why')", len(ids))
		changed("redrive($1, 'me')", len(ids))
		f.exec(f.db.Pool, "UPDATE "+table+" SET status = 1, attempts = 1, waiting = false, owner_token = "+
			"gen_random_uuid(), locked_until = now() + interval '1 day'")
		changed("cancel($1, 'why')", len(ids))
		f.exec(f.db.Pool, "UPDATE "+table+" SET status = 3, completed_at = now(), failed_at = now(), cancelled_at = NULL, "+
			"locked_until = NULL")
		changed("discard($1, 'why')", len(ids))
		changed("delete($1)", len(ids))
	}
	for _, call := range []string{"outbox_pause('t')", "outbox_resume('t')", "inbox_pause('c', 't')",
		"inbox_resume('c', 't')", "outbox_unblock('{}')", "jobs_unblock('{}')", "outbox_topics(10)", "timers_get('k')",
		"jobs_stats()",
		"jobs_pause('q')", "jobs_limit('q', 2, 0.5, 3)", "jobs_limit('q')", "jobs_resume('q')",
		"timers_schedule_pause('s')", "timers_schedule_resume('s')", "timers_schedule_trigger('s')",
		"jobs_schedule_pause('s')", "jobs_schedule_resume('s')", "jobs_schedule_trigger('s')"} {
		f.exec(operator, "SELECT "+call)
	}
}

// It writes no row of its own, and nothing of a row but what it decides.
func TestAnOperatorDoesNothingElse(t *testing.T) {
	f := newFixture(t)
	f.enqueueEverywhere(f.db.Pool)
	operator := f.as("operator")
	for _, table := range f.tables() {
		if strings.HasSuffix(table, "_topic") || table == "jobs_queue" || table == "audit" {
			continue // a pause is a row, as are limits
		}
		f.refuses(operator, forbidden, "INSERT INTO "+table+" DEFAULT VALUES")
	}
	for table, columns := range map[string][]string{
		"outbox": {"id", "payload", "topic", "key", "dedup_key", "concurrency_key", "created_at", "max_attempts",
			"retry", "locked_until"},
		"inbox": {"payload", "consumer", "source", "message_id", "body_hash"}, "timers": {"key", "payload", "fire_at"},
		"jobs":    {"kind", "queue", "priority", "args", "concurrency_key", "progress", "output", "unique_states"},
		"letters": {"text"}, "leader": {"*"}, "audit": {"who", "at", "about", "*"},
	} {
		for _, column := range columns {
			if column == "*" {
				f.refuses(operator, forbidden, "DELETE FROM "+table)
				continue
			}
			f.refuses(operator, forbidden, "UPDATE "+table+" SET "+column+" = "+column)
		}
	}
	const row = "(who, origin, action, event, verb, target, about, rows%s) VALUES ('me', '', gen_random_uuid(), 'done', 'v', " +
		"'t', '{}', 1%s)"
	f.exec(operator, "INSERT INTO audit "+fmt.Sprintf(row, "", ""))
	for column, value := range map[string]string{"id": "1", "at": "now()", "db_user": "'you'"} {
		f.refuses(operator, forbidden, "INSERT INTO audit "+fmt.Sprintf(row, ", "+column, ", "+value))
	}
	for _, role := range []string{"producer", "worker"} {
		f.refuses(f.as(role), forbidden, "INSERT INTO audit "+fmt.Sprintf(row, "", ""))
		f.refuses(f.as(role), forbidden, "SELECT FROM audit")
		f.refuses(f.as(role), forbidden, "DELETE FROM audit")
	}
	f.refusesDDL(operator)
	functions := f.lines("SELECT p.proname::text FROM pg_proc AS p WHERE p.pronamespace = $1::regnamespace AND "+
		"has_function_privilege($2, p.oid, 'EXECUTE')", f.db.Schema, f.role("operator"))
	for _, name := range functions {
		if name == "protocol" || name == "require" || name == "timers_get" {
			continue // the viewer's, too
		}
		may := append(slices.Clone(verbs), "pause", "resume", "limit", "topics", "stats", "unblock", "join_row",
			"trigger")
		if !slices.ContainsFunc(may, func(suffix string) bool { return strings.HasSuffix(name, "_"+suffix) }) {
			t.Errorf("the operator may call %s", name)
		}
	}
	for _, role := range []string{"producer", "viewer"} {
		for table := range queues {
			for _, verb := range verbs {
				arguments := map[string]string{"reschedule": ", now()", "cancel": ", ''", "discard": ", ''"}[verb]
				f.refuses(f.as(role), forbidden, "SELECT "+table+"_"+verb+"('{}'"+arguments+")")
			}
		}
	}
}
