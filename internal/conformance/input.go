package conformance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"

	"github.com/txwork/txwork/workqueue"
)

// A badInput is a call that must be refused before it writes anything.
type badInput struct {
	name string
	call func(ctx context.Context, o ops) error
}

func badInputName(b badInput) string { return b.name }

// Bad input is refused with a clear error, nothing is written, and the caller's transaction remains usable.
func refusesBadInput(s *suite) {
	held := s.claimed(2)
	s.ready(1)
	list := slices.Concat(s.badLimits(held), s.badTimes(held), s.badRows())
	if s.way.functions {
		list = slices.DeleteFunc(list, func(b badInput) bool { return isOnlyInGo(s.Case, "input/refused/"+b.name) })
	}
	each(s, list, badInputName, func(s *suite, bad badInput) {
		before := s.contents()
		id := uuid.New()
		s.do(func(ctx context.Context, o ops) error {
			err := o.apart(ctx, func(o ops) error { return bad.call(ctx, o) })
			if problem := s.way.judge(err); problem != "" {
				s.Errorf("got the error %v, %s", err, problem)
			}
			row := s.newRow()
			row.ID = id
			_, err = o.insert(ctx, row)
			return err
		})
		s.exec("DELETE FROM $T WHERE id = $1", id)
		equal(s, "table", s.contents(), before)
	})
}

// judge says what is wrong with the error of a call that had to be refused. Of what reaches no function, since it is no
// text or no number of PostgreSQL, or since it is inserted without one, the server says what is wrong in its own words.
func (w way) judge(err error) string {
	if !w.functions {
		var invalid *workqueue.InvalidError
		switch {
		case !errors.Is(err, workqueue.ErrInvalid):
			return "want an InvalidError"
		case errors.As(err, &invalid) && (invalid.Field == "" || invalid.Reason == ""):
			return "which does not say what is wrong"
		}
		return ""
	}
	var pg *pgconn.PgError
	switch {
	case !errors.As(err, &pg):
		return "want a refusal by the server"
	case pg.Code == "22023" && pg.ColumnName != "" && pg.Hint != "" && strings.HasPrefix(pg.Message, pg.ColumnName),
		pg.Code[:2] == "22" && pg.Code != "22023", pg.Code[:2] == "23":
		return ""
	}
	return "want SQLSTATE 22023 with the parameter and a hint, or that of a bad value"
}

func (s *suite) badLimits(held claim) []badInput {
	claim := func(token uuid.UUID, limit int, lanes ...any) func(context.Context, ops) error {
		return func(ctx context.Context, o ops) error {
			_, err := o.claim(ctx, token, lease, limit, lanes...)
			return err
		}
	}
	many := make([]uuid.UUID, workqueue.MaxBatch+1)
	for i := range many {
		many[i] = held.ids[0]
	}
	list := []badInput{
		{"claim of 0", claim(workqueue.NewOwnerToken(), 0, s.Lanes[0]...)},
		{"claim of -1", claim(workqueue.NewOwnerToken(), -1, s.Lanes[0]...)},
		{"claim of too many", claim(workqueue.NewOwnerToken(), workqueue.MaxBatch+1, s.Lanes[0]...)},
		{"claim without a token", claim(uuid.Nil, 1, s.Lanes[0]...)},
		{"claim with a random token", claim(uuid.New(), 1, s.Lanes[0]...)},
		{"claim with a token of process 0", claim(uuid.UUID{6: 0x80, 8: 0x80}, 1, s.Lanes[0]...)},
		{"claim of a lane too many", claim(workqueue.NewOwnerToken(), 1, append(slices.Clone(s.Lanes[0]), "x")...)},
		{"reap of 0", func(ctx context.Context, o ops) error { _, err := o.reap(ctx, 0); return err }},
		{"reap of -1", func(ctx context.Context, o ops) error { _, err := o.reap(ctx, -1); return err }},
		{"purge of -1", func(ctx context.Context, o ops) error { _, err := o.purgeDone(ctx, 0, -1); return err }},
		{"purge of failed of 0", func(ctx context.Context, o ops) error {
			_, err := o.purgeFailed(ctx, 0, 0)
			return err
		}},
		{"cancel of too many", func(ctx context.Context, o ops) error {
			_, err := o.cancel(ctx, many, "")
			return err
		}},
		{"sweep of 0", func(ctx context.Context, o ops) error { _, err := o.sweep(ctx, 0); return err }},
		{"sweep of -1", func(ctx context.Context, o ops) error { _, err := o.sweep(ctx, -1); return err }},
		{"redrive of too many", func(ctx context.Context, o ops) error {
			_, err := o.redrive(ctx, many, "")
			return err
		}},
	}
	for _, st := range s.settles() {
		list = append(list, badInput{st.name + " of too many", func(ctx context.Context, o ops) error {
			_, err := st.do(ctx, o, held.token, many)
			return err
		}})
	}
	if len(s.Spec.Lanes) > 0 {
		list = append(list, badInput{"claim of a lane too few", claim(workqueue.NewOwnerToken(), 1, s.Lanes[0][1:]...)})
	}
	return list
}

func (s *suite) badTimes(held claim) (list []badInput) {
	for name, d := range map[string]time.Duration{
		"of 0": 0, "under a second": time.Second - 1, "negative": -lease, "of days": 25 * time.Hour,
		"without end": 1<<63 - 1,
	} {
		list = append(list,
			badInput{"claim with a lease " + name, func(ctx context.Context, o ops) error {
				_, err := o.claim(ctx, workqueue.NewOwnerToken(), d, 1, s.Lanes[0]...)
				return err
			}},
			badInput{"extend with a lease " + name, func(ctx context.Context, o ops) error {
				_, err := o.extend(ctx, held.token, held.ids, d)
				return err
			}})
	}
	for name, d := range map[string]time.Duration{"negative": -1, "of centuries": 100 * 365 * 24 * time.Hour} {
		list = append(list,
			badInput{"abandon with a delay " + name, func(ctx context.Context, o ops) error {
				_, err := o.abandon(ctx, held.token, held.ids, d, cause)
				return err
			}},
			badInput{"snooze with a delay " + name, func(ctx context.Context, o ops) error {
				_, err := o.snooze(ctx, held.token, held.ids, d)
				return err
			}},
			badInput{"purge with an age " + name, func(ctx context.Context, o ops) error {
				_, err := o.purgeFailed(ctx, d, 1)
				return err
			}})
	}
	return list
}

// badRows are inserts of three rows, the last of which is bad.
func (s *suite) badRows() (list []badInput) {
	bad := func(name string, spoil func(*workqueue.NewRow)) {
		list = append(list, badInput{"insert with " + name, func(ctx context.Context, o ops) error {
			rows := []workqueue.NewRow{s.newRow(), s.newRow(), s.callable()}
			spoil(&rows[2])
			_, err := o.enqueue(ctx, rows...)
			return err
		}})
	}
	for name, due := range map[string]time.Time{
		"milliseconds taken for seconds": time.Unix(time.Now().UnixMilli(), 0),
		"a time before 1970":             time.Unix(-1, 0),
		"the end of time":                time.Unix(1<<60, 0),
	} {
		bad(name, func(row *workqueue.NewRow) { row.DueAt = due })
	}
	bad("a value too few", func(row *workqueue.NewRow) { row.Values = row.Values[1:] })
	bad("a value too many", func(row *workqueue.NewRow) { row.Values = append(row.Values, nil) })
	bad("no values", func(row *workqueue.NewRow) { row.Values = nil })
	bad("negative attempts", func(row *workqueue.NewRow) { row.MaxAttempts = -1 })
	bad("absurd attempts", func(row *workqueue.NewRow) { row.MaxAttempts = 1 << 40 })
	for name, text := range map[string]string{"NUL": "a\x00b", "invalid UTF-8": "a\xff\xfeb"} {
		bad(name+" in a header", func(row *workqueue.NewRow) { row.Headers = map[string]string{"k": text} })
		bad(name+" in a header's name", func(row *workqueue.NewRow) { row.Headers = map[string]string{text: "v"} })
		for i, c := range s.Spec.Columns {
			if c.Type == "text" {
				bad(name+" in "+c.Name, func(row *workqueue.NewRow) { row.Values[i] = text })
				bad(name+" behind a pointer in "+c.Name, func(row *workqueue.NewRow) { row.Values[i] = &text })
			}
		}
	}
	for i, c := range s.Spec.Columns {
		if c.NotNull {
			bad("no "+c.Name, func(row *workqueue.NewRow) { row.Values[i] = nil })
			bad("a nil pointer for "+c.Name, func(row *workqueue.NewRow) { row.Values[i] = (*string)(nil) })
		}
	}
	return list
}

// callable makes a row that the functions can write, if there are any.
func (s *suite) callable() (row workqueue.NewRow) {
	for range 10 {
		if row = s.newRow(); !s.way.functions || !(functionOps{spec: s.table.Spec()}).called(row).direct() {
			break
		}
	}
	return row
}

// A missing transaction is an error, whether it is nil or wraps a nil.
func refusesNilTransactions(s *suite) {
	queue := func(q *workqueue.Queue) error {
		_, err := q.Ack(s.Context(), uuid.New(), []uuid.UUID{uuid.New()})
		return err
	}
	insert := func(tx workqueue.Tx) error { _, err := s.table.Insert(s.Context(), tx, s.newRow()); return err }
	txs := []struct {
		name string
		tx   workqueue.Tx
	}{
		{"nil", nil},
		{"Pgx of nil", workqueue.Pgx(nil)},
		{"Pgx of a nil transaction", workqueue.Pgx((*pgxpool.Tx)(nil))},
		{"SQL of nil", workqueue.SQL(nil)},
		{"SQL of a nil *sql.Tx", workqueue.SQL((*sql.Tx)(nil))},
		{"SQL of a nil *sqlx.Tx", workqueue.SQL((*sqlx.Tx)(nil))},
	}
	check := func(name string, call func() error) {
		s.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("panic: %v", p)
				}
			}()
			if err := call(); !errors.Is(err, workqueue.ErrInvalid) {
				t.Errorf("got the error %v, want an InvalidError", err)
			}
		})
	}
	for _, tx := range txs {
		check("insert/"+tx.name, func() error { return insert(tx.tx) })
		check("in/"+tx.name, func() error { return queue(s.table.In(tx.tx)) })
	}
	check("on/nil", func() error { return queue(s.table.On(nil)) })
}

// fetchRefusesBadInput calls fetch with arguments that it names in its error, which has a hint.
func fetchRefusesBadInput(s *suite) {
	s.ready(1)
	token := workqueue.NewOwnerToken()
	last := []any{nil, nil, nil} // cursor, heard, sweep
	fetch := func(owner, lease, n any, last ...any) []any {
		return append(functionOps{spec: s.Spec}.fetchArgs(owner, lease, n, s.Lanes[0]), last...)
	}
	type call struct {
		name, column string
		args         []any
	}
	calls := []call{
		{"a lease of 0", "lease", fetch(token, time.Duration(0), 1)},
		{"a negative lease", "lease", fetch(token, -time.Second, 1)},
		{"no lease", "lease", fetch(token, nil, 1)},
		{"a lease of days", "lease", fetch(token, workqueue.MaxLease+time.Second, 1)},
		{"0 rows", "n", fetch(token, lease, 0)},
		{"-1 rows", "n", fetch(token, lease, -1)},
		{"too many rows", "n", fetch(token, lease, workqueue.MaxBatch+1)},
		{"no number of rows", "n", fetch(token, lease, nil)},
		{"no token", "owner_token", fetch(nil, lease, 1)},
		{"no cursor", "cursor", fetch(token, lease, 1, "no cursor", nil, nil)},
		{"an empty cursor", "cursor", fetch(token, lease, 1, "", nil, nil)},
		{"a long cursor", "cursor", fetch(token, lease, 1, "1 0123456789abcdef "+strings.Repeat("0", 9000), nil, nil)},
		{"a NULL that was heard", "heard", fetch(token, lease, 1, nil, []any{nil}, nil)},
		{"too much heard", "heard", fetch(token, lease, 1, nil, slices.Repeat([]string{"1"}, workqueue.MaxBatch+1),
			nil)},
	}
	for i, name := range s.Spec.Lanes {
		args := fetch(token, lease, 1, last...)
		for what, value := range map[string]any{"no lane": nil, "no lanes": []any{}, "a lane of NULL": []any{nil}} {
			if _, isArray := args[3+i].([]any); !isArray && value != nil {
				continue
			}
			other := slices.Clone(args)
			other[3+i] = value
			calls = append(calls, call{what + " " + name, name, other})
		}
	}
	each(s, calls, func(c call) string { return c.name }, func(s *suite, c call) {
		before := s.contents()
		err := s.try(func(ctx context.Context, o ops) error {
			f := o.(functionOps)
			_, err := f.tx.Exec(ctx, "SELECT "+f.call("fetch", len(c.args)), described(c.args)...)
			return err
		})
		var pg *pgconn.PgError
		if !errors.As(err, &pg) {
			s.Fatalf("got %v", err)
		}
		equal(s, "SQLSTATE", pg.Code, "22023")
		equal(s, "column", pg.ColumnName, c.column)
		equal(s, "begins with the parameter", strings.HasPrefix(pg.Message, c.column), true)
		equal(s, "has a hint", pg.Hint != "", true)
		equal(s, "table", s.contents(), before)
	})
}

// functionsRefuseBadInput calls the functions with invalid arguments.
func functionsRefuseBadInput(s *suite) {
	held := s.claimed(2)
	s.ready(1)
	type call struct {
		name, function string
		args           []any
	}
	longest := seconds(workqueue.MaxLease)
	calls := []call{
		{"retry with a negative delay", "retry", []any{held.token, held.ids, -time.Second, cause}},
		{"retry after centuries", "retry", []any{held.token, held.ids, 100 * 365 * 24 * time.Hour, cause}},
		{"snooze with a negative delay", "snooze", []any{held.token, held.ids, -time.Second}},
		{"snooze without a delay", "snooze", []any{held.token, held.ids, nil}},
		{"wait until infinity", "wait_until", []any{held.token, held.ids, pgtype.Infinity}},
		{"extend with a lease of 0", "extend", []any{held.token, held.ids, time.Duration(0)}},
		{"extend without a lease", "extend", []any{held.token, held.ids, nil}},
		{"extend with a lease of days", "extend", []any{held.token, held.ids, workqueue.MaxLease + time.Second}},
		{"reap of 0", "reap_expired", []any{0}},
		{"reap without a limit", "reap_expired", []any{nil}},
		{"purge of 0", "purge", []any{0}},
		{"purge without a limit", "purge", []any{nil}},
		{"fold step of 0", "fold_step", []any{0, nil, 0}},
		{"fold step without a limit", "fold_step", []any{nil, nil, 0}},
	}
	each(s, calls, func(c call) string { return c.name }, func(s *suite, c call) {
		before := s.contents()
		err := s.try(func(ctx context.Context, o ops) error {
			f := o.(functionOps)
			_, err := f.tx.Exec(ctx, "SELECT "+f.call(c.function, len(c.args)), described(c.args)...)
			return err
		})
		equal(s, fmt.Sprintf("SQLSTATE of %v", err), sqlState(err), "22023") // invalid_parameter_value
		equal(s, "table", s.contents(), before)
		if strings.Contains(c.name, "a lease") {
			equal(s, fmt.Sprintf("the rule in %v", err), strings.Contains(err.Error(),
				fmt.Sprintf(" must be between 1 and %d", longest)), true)
		}
	})
}

func sqlState(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return ""
	}
	return pg.Code
}

// NULL instead of the token or the ids, or among them, is refused, and so are more ids than the Go API takes. The rows
// that are named beside it are not changed. No ids are no error.
func functionsRefuseNullIDs(s *suite) {
	c := s.claimed(1)
	s.unchanged(c.ids, func() {
		for call, column := range map[string]string{
			"ack($1, NULL)": "ids", "retry($1, NULL)": "ids", "fail($1, NULL, 'x')": "ids",
			"release($1, NULL)": "ids", "extend($1, NULL, '30 s')": "ids", "snooze($1, NULL, '1 s')": "ids",
			"wait_until($1, NULL, now())": "ids", "ack(NULL, $2)": "owner_token", "retry(NULL, $2)": "owner_token",
			"fail(NULL, $2, 'x')": "owner_token", "extend(NULL, $2, '30 s')": "owner_token",
			"fail($1, $2, NULL)": "error", "ack($1, $2, NULL)": "strict", "complete(NULL, $2[1])": "owner_token",
			"complete($1, NULL)": "id", "settle(NULL)": "outcomes", "ack($1, $2 || NULL::uuid)": "ids",
			"redrive(NULL)": "ids", "redrive($2 || NULL::uuid)": "ids",
			fmt.Sprintf("ack($1, $2 || array_fill($1, ARRAY[%d]))", workqueue.MaxBatch): "ids",
		} {
			_, err := s.eyes.Exec(s.Context(), s.sql("SELECT c FROM (SELECT $1::uuid, $2::uuid[]) AS p, $T_"+call+
				" AS c"), c.token, c.ids)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "22023" || pg.ColumnName != column || pg.Hint == "" {
				s.Errorf("%s: %v", call, err)
			}
		}
		s.sameIDs(s.query("SELECT id FROM $T_ack($1, '{}')", c.token), nil)
		s.sameIDs(s.query("SELECT id FROM $T_settle('[]')"), nil)
	})
}

// coreFunctions are the functions of every table, whatever its domain adds.
var coreFunctions = []string{"fetch", "settle_rows", "settle", "ack", "retry", "snooze", "wait_until", "release",
	"fail", "extend", "complete", "reap_expired", "redrive", "run_now", "reschedule", "cancel", "discard", "delete",
	"announce", "purge",
	"fold_step", "fold", "each", "maintain_step", "maintain", "stats"}

// A role that may log in may not yet do work: no function, not even a domain's, is executable by PUBLIC, and each is
// safe from the caller's search_path.
func functionsAreNotForPublic(s *suite) {
	const functions = "FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1"
	for _, name := range coreFunctions { // a domain may have others of the same name
		equal(s, "functions "+name, scan[bool](s, "SELECT count(*) > 0 "+functions+" AND p.proname = $2", s.db.Schema,
			s.Spec.Table+"_"+name), true)
	}
	all := scan[int](s, "SELECT count(*) "+functions, s.db.Schema)
	if s.DDL == nil {
		writers := scan[int](s, "SELECT count(*) "+functions+" AND p.proname = ANY ($2)", s.db.Schema,
			[]string{s.Spec.Table + "_enqueue", s.Spec.Table + "_enqueue_many"})
		equal(s, "functions that write rows", writers == 2 || writers == 5,
			!s.Spec.Writer.None) // one for each type of payload, and one for many rows
		equal(s, "functions", all-writers, len(coreFunctions))
	}
	equal(s, "functions that PUBLIC may execute",
		scan[int](s, "SELECT count(*) "+functions+" AND has_function_privilege('public', p.oid, 'EXECUTE')",
			s.db.Schema), 0)
	// The triggers that announce inserts or note settles, and the procedure, qualify every name that they use;
	// internal/security reads their bodies.
	equal(s, "functions without a search_path of their own",
		scan[int](s, "SELECT count(*) "+functions+
			` AND p.proname NOT LIKE ALL ('{%\\_announce,%\\_key\\_note}') AND p.prokind = 'f'
			AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)`, s.db.Schema), 0)
	equal(s, "functions that run as their owner and can be called, except two that tell least of hidden rows",
		scan[int](s, "SELECT count(*) "+functions+` AND p.prosecdef AND p.prorettype <> 'trigger'::regtype
			AND p.proname NOT LIKE ALL ('{%\\_key\\_place,%\\_join\\_row}')`, s.db.Schema), 0)
}

// The table's constraints refuse states that no transition produces, whoever writes them.
func constraintsHold(s *suite) {
	id := s.ready(1)[0]
	for _, assignment := range []string{
		"due_at = 'infinity'", "due_at = '-infinity'", "due_at = NULL", "created_at = NULL",
		"status = 4", "status = -1", "status = NULL",
		"status = 1", "status = 1, locked_until = now()", "status = 1, owner_token = gen_random_uuid()",
		"locked_until = now()",
		"status = 2", "status = 3", "status = 3, completed_at = now()", "completed_at = now()",
		"status = 2, completed_at = now(), failed_at = now()", "failed_at = now()",
		"status = 2, completed_at = now(), locked_until = now()",
		"attempts = -1", "attempts = NULL", "attempts = max_attempts + 1", "max_attempts = 0", "max_attempts = NULL",
		"status = 1, attempts = 1, owner_token = gen_random_uuid(), locked_until = now(), waiting = true",
		"waiting = NULL", "cancelled_at = now()", "cancelled_at = now(), waiting = true",
		`retry = '{}'`, `retry = '{"base_us": -1, "cap_us": 1}'`, `retry = '{"base_us": 1, "cap_us": 1, "jitter": 2}'`,
		"attempts = max_attempts", // a Ready row that no claim could start would block every claim
	} {
		s.Run(assignment, func(t *testing.T) {
			_, err := s.eyes.Exec(s.Context(), s.sql("UPDATE $T SET "+assignment+" WHERE id = $1"), id)
			if state := sqlState(err); state != "23514" && state != "23502" {
				t.Errorf("got the error %v, want a violated constraint", err)
			}
		})
	}
}
