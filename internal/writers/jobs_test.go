package writers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// A job that is worked on in SQL: steps, progress, output and its end, guarded by the token.
func TestAJobIsWorkedOnInSQL(t *testing.T) {
	f := newFixture(t)
	id, _ := f.one(`txwork.jobs_enqueue('echo', '{}')`)
	const token = "'0f0e0d0c-0b0a-8908-8706-050403020100'"
	_, err := f.db.Pool.Exec(t.Context(), f.in("UPDATE txwork.jobs SET status = 1, attempts = 1, owner_token = "+token+
		", locked_until = now() + interval '1 hour'"))
	f.ok(err)
	call := func(call string) (string, error) {
		call = strings.NewReplacer("TOKEN", token, "ID", "'"+id.String()+"'").Replace(f.in(call))
		var got *string
		err := f.db.Pool.QueryRow(t.Context(), call, pgx.QueryExecModeSimpleProtocol).Scan(&got)
		if got == nil {
			return "", err
		}
		return *got, err
	}
	put := func(value string) string {
		return "SELECT result || ' ' || convert_from(recorded, 'UTF8') FROM txwork.jobs_put_step(TOKEN, ID, 'charge', " +
			value + ")"
	}
	for _, c := range []struct{ call, want string }{
		{put(`'{"id": 1}'`), `put {"id": 1}`},
		{put(`'{"id": 2}'::jsonb`), `kept {"id": 1}`},
		{put(`'\x00'::bytea`), `kept {"id": 1}`},
		{"SELECT string_agg(name || ' ' || convert_from(result, 'UTF8'), ',') FROM txwork.jobs_steps(TOKEN, ID)",
			`charge {"id": 1}`},
		{"SELECT txwork.jobs_progress(TOKEN, ID, 40, 'charged')::text", ""},
		{"SELECT progress || progress_note FROM txwork.jobs", "40charged"},
		{"SELECT txwork.jobs_output(TOKEN, ID, '7')::text", ""},
		{"SELECT convert_from(output, 'UTF8') FROM txwork.jobs", "7"},
		// Steps that a Replace has made void are neither read nor kept.
		{"WITH u AS (UPDATE txwork.jobs SET trail = false RETURNING id) SELECT id::text FROM u", id.String()},
		{put(`'"new"'::json`), `put "new"`},
		{"SELECT txwork.jobs_complete(TOKEN, ID, '{\"n\": 8}'::jsonb)::text", ""},
		{"SELECT status || convert_from(output, 'UTF8') FROM txwork.jobs", `2{"n": 8}`},
	} {
		if got, err := call(c.call); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.call, got, err, c.want)
		}
	}
	for text, state := range map[string]string{
		"SELECT txwork.jobs_steps(gen_random_uuid(), ID)::text":              "TXL01",
		"SELECT txwork.jobs_progress(gen_random_uuid(), ID, 1)::text":        "TXL01",
		"SELECT txwork.jobs_output(gen_random_uuid(), ID, '1')::text":        "TXL01",
		"SELECT txwork.jobs_complete(gen_random_uuid(), ID, '1')::text":      "TXL01",
		"SELECT txwork.jobs_complete(TOKEN, gen_random_uuid(), '1')::text":   "TXL01",
		"SELECT txwork.jobs_complete(TOKEN, ID, NULL::text)::text":           "TXL01", // a repetition
		"SELECT txwork.jobs_progress(TOKEN, ID, 101)::text":                  "22023",
		"SELECT txwork.jobs_progress(TOKEN, ID, NULL)::text":                 "22023",
		"SELECT txwork.jobs_progress(TOKEN, ID, 1, repeat('x', 1025))::text": "22023",
		"SELECT txwork.jobs_progress(NULL, ID, 1)::text":                     "22023",
		"SELECT txwork.jobs_steps(TOKEN, NULL)::text":                        "22023",
		"SELECT txwork.jobs_put_step(gen_random_uuid(), ID, 's', '1')::text": "TXL01",
		"SELECT txwork.jobs_put_step(TOKEN, ID, '', '1')::text":              "22023",
		"SELECT txwork.jobs_put_step(TOKEN, ID, 's', NULL::text)::text":      "22023",
		"SELECT txwork.jobs_output(TOKEN, ID, NULL::jsonb)::text":            "22023",
		"SELECT txwork.jobs_output(TOKEN, ID, repeat('x', 1048577))::text":   "22023",
		"SELECT txwork.jobs_complete(TOKEN, ID, repeat('x', 1048577))::text": "22023",
	} {
		if _, err := call(text); postgres.State(err) != state {
			t.Errorf("%s: %v, want SQLSTATE %s", text, err, state)
		}
	}
}

// The rules of a queue that SQL sets are those that Go sets.
func TestRulesOfQueuesAreThoseOfGo(t *testing.T) {
	f := newFixture(t)
	client, err := jobs.Open(jobs.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	for _, call := range []string{"jobs_pause('paused')", "jobs_pause('resumed')", "jobs_resume('resumed')",
		"jobs_limit('limit', 3)", "jobs_limit('rate', rate => 2.5)", "jobs_limit('both', 1, 0.5, 7)",
		"jobs_limit('none', 1, 2)", "jobs_limit('none')"} {
		_, err := f.db.Pool.Exec(t.Context(), f.in("SELECT txwork."+call))
		f.ok(err)
	}
	want := []jobs.QueueInfo{{Name: "both", Limits: jobs.Limits{MaxRunning: 1, Rate: 0.5, Burst: 7}},
		{Name: "limit", Limits: jobs.Limits{MaxRunning: 3}}, {Name: "none"}, {Name: "paused", Paused: true},
		{Name: "rate", Limits: jobs.Limits{Rate: 2.5, Burst: 3}}, {Name: "resumed"}}
	f.ok(workqueue.InTx(t.Context(), f.db.Pool, func(tx workqueue.Tx) error {
		got, err := client.Queues(t.Context(), tx)
		if !slices.Equal(got, want) {
			t.Errorf("the queues are %+v, want %+v", got, want)
		}
		return err
	}))
	for _, call := range []string{"jobs_pause(NULL)", "jobs_pause('')", "jobs_resume(repeat('q', 256))",
		"jobs_limit('q', 0)", "jobs_limit('q', rate => 0)", "jobs_limit('q', rate => 'NaN')",
		"jobs_limit('q', burst => 1)", "jobs_limit('q', 1, 1, 0)", "jobs_limit(NULL)"} {
		_, err := f.db.Pool.Exec(t.Context(), f.in("SELECT txwork."+call))
		if postgres.State(err) != "22023" {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// A rule of a key that Go refuses is refused by the functions, too, with the argument and before anything is written.
func TestRefusedRulesOfKeys(t *testing.T) {
	f := newFixture(t)
	for arguments, column := range map[string]string{
		`"ordered_key": ""`: "ordered_key",
		`"ordered_key": "` + strings.Repeat("k", 256) + `"`:           "ordered_key",
		`"ordered_key": "k", "on_failure": "stop"`:                    "on_failure",
		`"ordered_key": "k", "limited_key": "l", "rate": 1`:           "limited_key",
		`"limited_key": "", "rate": 1`:                                "limited_key",
		`"limited_key": "` + strings.Repeat("é", 128) + `", "rate":1`: "limited_key",
		`"limited_key": "k"`:                                          "limited_key",
		`"rate": 1`:                                                   "limited_key",
		`"limited_key": "k", "max_running": 0`:                        "max_running",
		`"limited_key": "k", "rate": 0`:                               "rate",
		`"limited_key": "k", "rate": -1`:                              "rate",
		`"limited_key": "k", "rate": 1e10`:                            "rate",
		`"limited_key": "k", "rate": "NaN"`:                           "rate",
		`"limited_key": "k", "max_running": 1, "burst": 1`:            "burst",
		`"limited_key": "k", "rate": 1, "burst": 0`:                   "burst",
	} {
		var object map[string]any
		f.ok(json.Unmarshal([]byte("{"+arguments+"}"), &object))
		named := make([]string, 0, len(object))
		for name, value := range object {
			named = append(named, fmt.Sprintf("%s => '%v'", name, value))
		}
		_, err := f.db.Pool.Exec(t.Context(), f.in("SELECT txwork.jobs_enqueue('echo', '{}', "+strings.Join(named, ", ")+")"))
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "22023" || e.ColumnName != column || e.Hint == "" {
			t.Errorf("%s: %v (%+v)", arguments, err, e)
		}
		_, err = f.db.Pool.Exec(t.Context(), f.in(`SELECT txwork.jobs_enqueue_many('[{"kind": "echo", "args": {}},
			{"kind": "echo", "args": {}, `+arguments+`}]')`))
		if !errors.As(err, &e) || e.Code != "22023" || !strings.Contains(e.Message, "element 2: "+column+" ") {
			t.Errorf("many with %s: %v (%+v)", arguments, err, e)
		}
	}
	if n := ask[int](f, "SELECT count(*) FROM txwork.jobs"); n != 0 {
		t.Errorf("%d rows are there", n)
	}
}
