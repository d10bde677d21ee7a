package writers

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// What jobs_enqueue does when the key is taken is what Go does: the row of the holder is the same afterwards.
func TestTakenKeysOfJobs(t *testing.T) {
	f := newFixture(t)
	client, err := jobs.Open(jobs.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	due := time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		conflict jobs.Conflict
		state    string
		replaced bool
	}{
		"keep":    {jobs.Keep, "status = 0", false},
		"replace": {jobs.Replace, "attempts = 1, last_error = 'e', progress = 7, output = 'x', trail = true", true},
		"replace, in progress": {jobs.Replace, "status = 1, waiting = false, attempts = 1, owner_token = gen_random_uuid(), locked_until = " +
			"now()", false},
		"replace, done": {jobs.Replace, "status = 2, completed_at = now()", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			var holders [2]uuid.UUID
			var rows [2]map[string]string
			for i := range holders {
				tx, err := f.db.Pool.Begin(t.Context())
				f.ok(err)
				defer tx.Rollback(t.Context())
				holders[i], _ = f.call(tx, `jobs_enqueue('thumbnail', '{"picture":"dog.png"}', unique_key => 'k',
					unique_while => '{done}', limited_key => 'old', max_running => 3)`)
				_, err = tx.Exec(t.Context(), f.in("UPDATE txwork.jobs SET "+c.state))
				f.ok(err)
				var got workqueue.Enqueued
				if i == 0 {
					got, err = client.Enqueue(t.Context(), workqueue.Pgx(tx), jobs.Insert{Args: thumbnail{"cat.png"},
						Queue: "q", Priority: jobs.Low, ScheduledAt: due, MaxAttempts: 3,
						Headers: map[string]string{"a": "b"}, ByKey: keyed.Ordered{Key: "new", OnFailure: keyed.Park},
						Unique: &jobs.Unique{Key: "k", While: jobs.WhileFailed, OnConflict: c.conflict}})
				} else {
					err = tx.QueryRow(t.Context(), f.in(`SELECT id, duplicate, replaced FROM txwork.jobs_enqueue('thumbnail',
						'{"picture":"cat.png"}', queue => 'q', priority => 3, scheduled_at => '2040-01-02T03:04:05Z',
						max_attempts => 3, headers => '{"a": "b", "txwork-running": "1"}', ordered_key => 'new',
						on_failure => 'park', unique_key => 'k', unique_while => '{failed}', on_conflict => $1)`),
						[]string{"keep", "replace", "reject"}[c.conflict]).Scan(&got.ID, &got.Duplicate, &got.Replaced)
				}
				f.ok(err)
				if got != (workqueue.Enqueued{ID: holders[i], Duplicate: true, Replaced: c.replaced}) {
					t.Errorf("way %d: %+v", i, got)
				}
				rows[i] = f.row(tx, "jobs", holders[i])
				f.ok(tx.Rollback(t.Context()))
			}
			for column, want := range rows[0] {
				if got := rows[1][column]; got != want && column != "owner_token" && column != "locked_until" &&
					column != "completed_at" && (c.replaced || column != "due_at") {
					t.Errorf("%s is %s, want %s", column, got, want)
				}
			}
		})
	}
	f.one("txwork.jobs_enqueue('thumbnail', '{}', unique_key => 'k')")
	for key, want := range map[string]string{"k": "23505", "other": ""} {
		_, err := f.db.Pool.Exec(t.Context(), f.in("SELECT txwork.jobs_enqueue('thumbnail', '{}', unique_key => $1, "+
			"on_conflict => 'reject')"), key)
		if postgres.State(err) != want {
			t.Errorf("reject with the key %q: %v", key, err)
		}
	}
	if _, duplicate := f.one("txwork.jobs_enqueue('other', '{}', unique_key => 'k')"); duplicate {
		t.Error("another kind has the same key")
	}
}

// Fields meet, whichever language writes them first; a job that starts frees its key if it is to.
func TestUniqueFieldsMeet(t *testing.T) {
	f := newFixture(t)
	client, err := jobs.Open(jobs.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	for i, fields := range []map[string]any{{"customer": 7}, {"price": 1.5, "ü": nil}, {"id": json.Number("1e3")}} {
		var got workqueue.Enqueued
		f.ok(workqueue.InTx(t.Context(), f.db.Pool, func(tx workqueue.Tx) error {
			got, err = client.Enqueue(t.Context(), tx, jobs.Insert{Args: thumbnail{fmt.Sprint(i)},
				Unique: &jobs.Unique{Fields: fields}})
			return err
		}))
		text, err := json.Marshal(fields)
		f.ok(err)
		id, duplicate := f.one("txwork.jobs_enqueue('thumbnail', '{}', unique_fields => $1)", string(text))
		if !duplicate || id != got.ID {
			t.Errorf("%s: got %v, %t", text, id, duplicate)
		}
	}
	first, _ := f.one("txwork.jobs_enqueue('echo', '1', unique_fields => '{\"a\": 1}', unique_until => 'start_in_turn')")
	_, err = f.db.Pool.Exec(t.Context(), f.in("CALL txwork.jobs_fold()"))
	f.ok(err)
	ask[uuid.UUID](f, "SELECT id FROM txwork.jobs_fetch(txwork.owner_token(1), '1 minute', 10) WHERE id = $1", first)
	if _, duplicate := f.one("txwork.jobs_enqueue('echo', '2', unique_fields => '{\"a\": 1.0}', unique_until => " +
		"'start_in_turn')"); duplicate {
		t.Error("a job that has started still holds its key")
	}
	if n := ask[int](f, "SELECT count(*) FROM txwork.jobs WHERE kind = 'echo' AND waiting"); n != 1 {
		t.Errorf("%d jobs wait for their turn, want 1", n)
	}
}

// What is refused says which argument and what to do, before anything is written.
func TestRefusedUniqueArguments(t *testing.T) {
	f := newFixture(t)
	for arguments, column := range map[string]string{
		`unique_key => 'k', unique_fields => '{"a": 1}'`:                                      "unique_fields",
		`unique_fields => '[]'`:                                                               "unique_fields",
		`unique_fields => '{}'`:                                                               "unique_fields",
		`unique_fields => 'null'`:                                                             "unique_fields",
		`unique_fields => '{"a": []}'`:                                                        "unique_fields",
		`unique_key => 'k', unique_until => 'later'`:                                          "unique_until",
		`unique_key => 'k', unique_until => NULL`:                                             "unique_until",
		`unique_key => 'k', on_conflict => 'merge'`:                                           "on_conflict",
		`unique_key => 'k', on_conflict => NULL`:                                              "on_conflict",
		`on_conflict => 'replace'`:                                                            "unique_key",
		`unique_until => 'start'`:                                                             "unique_key",
		`unique_until => NULL`:                                                                "unique_key",
		`unique_while => '{done}'`:                                                            "unique_key",
		`unique_key => 'k', unique_until => 'start', unique_while => '{done}'`:                "unique_while",
		`unique_key => 'k', unique_until => 'start_in_turn', ordered_key => 'o'`:              "unique_until",
		`unique_key => 'k', unique_until => 'start_in_turn', limited_key => 'o', rate => 1.0`: "unique_until",
	} {
		_, err := f.db.Pool.Exec(t.Context(), f.in("SELECT txwork.jobs_enqueue('thumbnail', '{}', "+arguments+")"))
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "22023" || e.ColumnName != column || e.Hint == "" {
			t.Errorf("%s: %v (%+v)", arguments, err, e)
		}
	}
	for object, said := range map[string]string{
		`"unique_key": "k", "unique_fields": {"a": 1}`: "unique_fields must not be given",
		`"unique_fields": {"a": []}`:                   "unique_fields must have no arrays",
		`"unique_key": "k", "unique_until": "later"`:   "unique_until must be",
		`"unique_key": "k", "on_conflict": "merge"`:    "on_conflict must be",
		`"unique_while": ["done"]`:                     "unique_key or unique_fields must be given",
	} {
		_, err := f.db.Pool.Exec(t.Context(), f.in(`SELECT txwork.jobs_enqueue_many('[{"kind": "echo", "args": {}},
			{"kind": "echo", "args": {}, `+object+`}]')`))
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "22023" || e.ColumnName != "rows" || e.Hint == "" ||
			!strings.Contains(e.Message, "element 2: "+said) {
			t.Errorf("many with %s: %v (%+v)", object, err, e)
		}
	}
	if n := ask[int](f, "SELECT count(*) FROM txwork.jobs"); n != 0 {
		t.Errorf("%d rows are there", n)
	}
}

// A direct INSERT or COPY of a key that no program would make is refused; the forms that programs make are not.
func TestKeysOfADirectInsert(t *testing.T) {
	f := newFixture(t)
	hash := "omBvgSO8zHcznYcXJbfaTn5ar9buCy5bAgWEmINriE0"
	for _, c := range []struct {
		kind, key string
		states    any
		ok        bool
	}{
		{"k", "u:k\x1fx", nil, true}, {"k", "f:k\x1f" + hash, 2, true}, {"k", "a:k\x1f" + hash, 12, true},
		{"ü:", "u:ü:\x1f\x1f", 4, true}, {"k", "u:k\x1fy", 0, true},
		{"k", "x", nil, false}, {"k", "u:k\x1f", nil, false}, {"k", "u:x\x1fx", nil, false},
		{"k", "k\x1fx", nil, false},
		{"k", "b:k\x1f" + hash, nil, false}, {"k", "f:k\x1f" + hash + "=", nil, false}, {"k", "f:k\x1fx", nil, false},
		{"k", "a:k\x1f" + hash[1:] + "+", nil, false}, {"k\x1fk", "u:k\x1fk\x1fx", nil, false}, {"k", "", nil, false},
		{"k", "u:k\x1fz", 1, false}, {"k", "u:k\x1fz", 6, false}, {"k", "u:k\x1fz", 16, false},
	} {
		tx, err := f.db.Pool.Begin(t.Context())
		f.ok(err)
		n, err := tx.CopyFrom(t.Context(), pgx.Identifier{f.db.Schema, "jobs"},
			[]string{"kind", "queue", "priority", "args", "unique_key", "unique_states"},
			pgx.CopyFromRows([][]any{{c.kind, "q", 2, []byte("1"), c.key, c.states}}))
		if c.ok != (err == nil && n == 1) || !c.ok && postgres.State(err) != "23514" {
			t.Errorf("kind %q, key %q, states %v: %v", c.kind, c.key, c.states, err)
		}
		f.ok(tx.Rollback(t.Context()))
	}
}
