package writers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// arguments splits the arguments of a call, which are expressions.
func arguments(call string) (function string, args []string) {
	function, rest, _ := strings.Cut(call, "(")
	depth, start, quoted := 0, 0, false
	for i, c := range rest {
		switch {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case depth == 0 && (c == ',' || c == ')'):
			args = append(args, strings.TrimSpace(rest[start:i]))
			start = i + 1
		}
	}
	return function, args
}

// object is the JSON object for the function for many rows, as an expression, from a call of the function for one.
func (f *fixture) object(call string) (function, object string) {
	f.Helper()
	function, args := arguments(call)
	type parameter struct{ Name, Type string }
	rows, err := f.db.Pool.Query(f.Context(), `
		SELECT a.name, a.type::regtype::text
		FROM pg_proc AS p,
			ROWS FROM (unnest(p.proargnames), unnest(p.proallargtypes::oid[]), unnest(p.proargmodes)) WITH ORDINALITY
				AS a (name, type, mode, n)
		WHERE p.pronamespace = $1::regnamespace AND p.proname = $2 AND a.mode <> 'o'
		  AND pg_get_function_arguments(p.oid) ~ '(payload|args) text'
		ORDER BY a.n`, f.db.Schema, function)
	f.ok(err)
	params, err := pgx.CollectRows(rows, pgx.RowToStructByPos[parameter])
	f.ok(err)
	var fields []string
	for i, arg := range args {
		p := params[i]
		if name, value, named := strings.Cut(arg, "=>"); named {
			p = params[slices.IndexFunc(params, func(p parameter) bool { return p.Name == strings.TrimSpace(name) })]
			arg = value
		}
		value := fmt.Sprintf("to_jsonb((%s)::%s)", arg, p.Type)
		switch {
		case p.Type == "bytea":
			p.Name, value = p.Name+"_base64", fmt.Sprintf("encode(%s, 'base64')", arg)
		case p.Name == "payload", p.Name == "args":
			p.Name += "_text"
		}
		fields = append(fields, fmt.Sprintf("'%s', %s", p.Name, value))
	}
	return function, "jsonb_build_object(" + strings.Join(fields, ", ") + ")"
}

// A result is what the functions for many rows return.
type result struct {
	place               int
	id                  uuid.UUID
	duplicate, replaced bool
}

// many calls the function for many rows with an expression.
func (f *fixture) many(tx querier, function, rows string, args ...any) (results []result, err error) {
	list, err := tx.Query(f.Context(), "SELECT place, id, duplicate, replaced FROM "+f.db.Schema+"."+function+"_many("+
		rows+")", args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(list, func(row pgx.CollectableRow) (r result, err error) {
		return r, row.Scan(&r.place, &r.id, &r.duplicate, &r.replaced)
	})
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// The rows that the functions for many rows write are those of Go, column by column.
func TestManyRowsAreThoseOfGo(t *testing.T) {
	f := newFixture(t)
	for name, p := range f.pairs() {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			function, object := f.object(p.call)
			conn, err := f.db.Pool.Begin(t.Context())
			f.ok(err)
			defer conn.Rollback(context.WithoutCancel(t.Context()))
			id, err := p.write(t.Context(), workqueue.Pgx(conn))
			f.ok(err)
			want := f.row(conn, p.table, id)
			results, err := f.many(conn, function, "jsonb_build_array("+object+")")
			f.ok(err)
			if unique := hasUnique(want); results[0].duplicate != unique || unique && results[0].id != id {
				t.Fatalf("beside the row of Go the call returns %v", results)
			}
			_, err = conn.Exec(t.Context(), f.in("DELETE FROM txwork.")+p.table)
			f.ok(err)

			// Several rows, of which the last is one that Go wrote, and one with an id.
			own := uuid.New()
			results, err = f.many(conn, function, fmt.Sprintf("jsonb_build_array(%s || jsonb_build_object('id', '%s'), %s)",
				object, own, object))
			f.ok(err)
			if len(results) != 2 || results[0] != (result{place: 1, id: own}) || results[1].place != 2 {
				if p.table != "timers" || results[0].duplicate || results[0].id != results[1].id {
					t.Fatalf("the call returns %v", results)
				}
			}
			for _, r := range results {
				got := f.row(conn, p.table, r.id)
				for column, value := range want {
					if got[column] != value {
						t.Errorf("%s is %s, want %s", column, got[column], value)
					}
				}
			}
			if hasUnique(want) != (results[0].id == results[1].id) {
				t.Errorf("two rows with the same values: %v", results)
			}
		})
	}
}

// What is refused is told with the place of the object and the field, and nothing is written.
func TestManyRowsAreCheckedFirst(t *testing.T) {
	f := newFixture(t)
	for rows, want := range map[string]string{
		`null`:   "rows must be an array",
		`{}`:     "rows must be an array",
		`[1]`:    "element 1",
		`[null]`: "element 1",
		`[{"topic": "t", "payload": 1}, {"topic": "t", "payload": 1, "delay": 3}]`:                      "element 2",
		`[{"topic": "t", "payload": 1, "payload_text": "1"}]`:                                           "element 1",
		`[{"topic": "t", "payload": 1}, {"topic": "", "payload": 1}]`:                                   "element 2: topic must",
		`[{"topic": "t", "payload": 1, "headers": 7}]`:                                                  "element 1: headers must",
		`[{"topic": "t", "payload": 1, "max_attempts": 0}]`:                                             "element 1: max_attempts",
		`[{"topic": "t", "payload": 1, "max_attempts": "many"}]`:                                        "type",
		`[{"topic": "t", "payload": 1, "scheduled_at": "soon"}]`:                                        "type",
		`[{"topic": "t", "payload_base64": "%"}]`:                                                       "type",
		`[{"topic": "t", "payload": 1, "id": 7}]`:                                                       "element 1, a value is not of its",
		`[{"topic": "t", "payload": 1}, {"topic": "t", "payload": 1, "ordered": "maybe"}]`:              "element 2, a value is not of its",
		"[" + strings.Repeat(`{"topic": "t", "payload": 1},`, 10_000) + `{"topic": "t", "payload": 1}]`: "at most 10000",
	} {
		_, err := f.many(f.db.Pool, "outbox_enqueue", "$1::jsonb", rows)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || pg.ColumnName != "rows" || pg.Hint == "" ||
			!strings.Contains(pg.Message, want) {
			t.Errorf("%.80s: %v, want %q", rows, err, want)
		}
	}
	if _, err := f.many(f.db.Pool, "outbox_enqueue", "NULL"); err == nil {
		t.Error("NULL is taken for rows")
	}
	if got, err := f.many(f.db.Pool, "outbox_enqueue", "'[]'"); err != nil || len(got) != 0 {
		t.Errorf("no rows: %v, %v", got, err)
	}
	if n := ask[int](f, "SELECT count(*) FROM txwork.outbox"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

// Duplicates among the objects, and of rows that are there, are told in their places.
func TestManyRowsTellDuplicates(t *testing.T) {
	f := newFixture(t)
	for function, object := range map[string]string{
		"outbox_enqueue": `{"topic": "t", "payload": 1, "dedup_key": "%s"}`,
		"inbox_receive":  `{"consumer": "c", "source": "s", "message_id": "%s", "payload": 1}`,
		"timers_set":     `{"key": "%s", "topic": "t", "scheduled_at": "2040-01-02T03:04:05Z"}`,
		"jobs_enqueue":   `{"kind": "echo", "args": 1, "unique_key": "%s"}`,
	} {
		of := func(keys ...string) (list []string) {
			for _, key := range keys {
				list = append(list, fmt.Sprintf(object, key))
			}
			return list
		}
		call := func(keys ...string) []result {
			results, err := f.many(f.db.Pool, function, "$1::jsonb", "["+strings.Join(of(keys...), ",")+"]")
			f.ok(err)
			return results
		}
		changes := function == "timers_set" // of several timers the last is set, and is the result of all
		first := call("c", "b")
		again := call("a", "b", "d", "a", "c")
		want := []result{{1, again[0].id, false, false}, {2, first[1].id, true, changes},
			{3, again[2].id, false, false}, {4, again[0].id, !changes, false}, {5, first[0].id, true, changes}}
		if !slices.Equal(again, want) {
			t.Errorf("%s: %v, want %v", function, again, want)
		}
		for i, r := range call("a", "b", "c", "d") {
			if !r.duplicate || r.replaced != changes || r.place != i+1 {
				t.Errorf("%s: all again: %v", function, r)
			}
		}
	}
	// The last of several timers with a key is set.
	_, err := f.many(f.db.Pool, "timers_set", `'[{"key": "a", "topic": "1", "scheduled_at": "2040-01-02"},
		{"key": "a", "topic": "2", "scheduled_at": "2040-01-02"}, {"key": "e", "topic": "3", "scheduled_at": "2040-01-02"},
		{"key": "e", "topic": "4", "scheduled_at": "2040-01-02"}]'`)
	f.ok(err)
	if got := ask[string](f, "SELECT string_agg(topic || generation, ' ' ORDER BY key) FROM txwork.timers "+
		"WHERE key IN ('a', 'e')"); got != "23 41" {
		t.Errorf("the timers are %s", got)
	}
	var mismatch []bool
	f.ok(f.db.Pool.QueryRow(t.Context(), f.in(`SELECT array_agg(coalesce(hash_mismatch, false) ORDER BY place)
		FROM txwork.inbox_receive_many('[{"consumer": "c", "source": "s", "message_id": "a", "payload": 1},
			{"consumer": "c", "source": "s", "message_id": "b", "payload": 2},
			{"consumer": "c", "source": "s", "message_id": "z", "payload": 2}]')`)).Scan(&mismatch))
	if !slices.Equal(mismatch, []bool{false, true, false}) {
		t.Errorf("hash_mismatch is %v", mismatch)
	}
}

// Rows keep the order of the objects: in their ids, and in their keys.
func TestManyRowsKeepTheirOrder(t *testing.T) {
	f := newFixture(t)
	results, err := f.many(f.db.Pool, "outbox_enqueue", `(SELECT jsonb_agg(jsonb_build_object('topic', 't', 'payload', n,
		'key', CASE WHEN n % 3 = 0 THEN 'k' || n % 2 END, 'dedup_key', CASE WHEN n % 5 = 0 THEN (1000 - n)::text END)
		ORDER BY n) FROM generate_series(1, 1000) AS n)`)
	f.ok(err)
	for i, r := range results {
		if i > 0 && r.id.String() <= results[i-1].id.String() || r.id.Version() != 7 || r.id.Variant() != uuid.RFC4122 {
			t.Fatalf("the ids %v and %v", results[max(0, i-1)].id, r.id)
		}
	}
	if wrong := ask[int](f, `SELECT count(*) FROM (SELECT convert_from(payload, 'UTF8')::int AS n,
		lag(convert_from(payload, 'UTF8')::int) OVER (PARTITION BY key ORDER BY key_seq) AS before
		FROM txwork.outbox WHERE key IS NOT NULL) AS o WHERE n < before`); wrong != 0 {
		t.Errorf("%d rows are before their predecessors", wrong)
	}
}

// Two calls with the same keys in different orders wait for each other, and do not deadlock.
func TestManyRowsTakeTurns(t *testing.T) {
	f := newFixture(t)
	for _, rows := range []string{
		`outbox_enqueue (SELECT jsonb_agg(jsonb_build_object('topic', 't', 'payload', 1, 'key', n %% 50) ORDER BY n * %d) FROM generate_series(1, 500) AS n)`,
		`jobs_enqueue (SELECT jsonb_agg(jsonb_build_object('kind', 'echo', 'args', 1, 'unique_key', n %% 50) ORDER BY n * %d) FROM generate_series(1, 500) AS n)`,
		`inbox_receive (SELECT jsonb_agg(jsonb_build_object('consumer', 'c', 'source', 's', 'payload', 1, 'message_id', n %% 50) ORDER BY n * %d) FROM generate_series(1, 500) AS n)`,
		`timers_set (SELECT jsonb_agg(jsonb_build_object('key', n %% 50, 'topic', 't', 'scheduled_at', now()) ORDER BY n * %d) FROM generate_series(1, 500) AS n)`,
	} {
		function, rows, _ := strings.Cut(rows, " ")
		errs := make(chan error)
		for i := range 4 {
			go func() {
				var err error
				for range 5 {
					_, e := f.many(f.db.Pool, function, fmt.Sprintf(rows, 1-2*(i%2)))
					err = errors.Join(err, e)
				}
				errs <- err
			}()
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Errorf("%s: %v", function, err)
			}
		}
	}
}
