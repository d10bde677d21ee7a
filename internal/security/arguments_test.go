package security_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// internals lists functions that only the library and other functions call, by a part of their names.
var internals = []string{"_claim_by_topic", "_claim_admitted", "_settle_rows", "_each", "_maintain_step",
	"_key_place", "_key_fold", "_key_next", "_key_fill", "_key_park", "_key_look", "_join_", "jobs_admit",
	"jobs_spans", "jobs_starts", "jobs_permit", "jobs_take", "jobs_give_start", "jobs_chain_key", "leader_note",
	"history_merge"}

// nullable lists parameters without a default in which NULL has a meaning: the first step of a fold has no cursor, and
// a job may complete without an output.
var nullable = []string{"_fold_step cursor", "_fold_step folded", "jobs_complete output"}

// An argument is a parameter of a function, with the call in which %s stands for its value.
type argument struct {
	Function, Call, Name, Type string
	Required                   bool
}

// arguments are those of every function that programs call.
func (f *fixture) arguments() []argument {
	f.t.Helper()
	rows, err := f.db.Pool.Query(f.t.Context(), `
		SELECT p.proname::text,
		       CASE p.prokind WHEN 'p' THEN 'CALL ' ELSE 'SELECT * FROM ' END || p.oid::regproc || '(' || (
		           SELECT string_agg(CASE
		               WHEN i.n = a.n THEN '%s'
		               WHEN i.name LIKE 'lease%' THEN '''60'''
		               WHEN i.type = 'interval'::regtype THEN '''1 minute'''
		               WHEN i.type = 'uuid'::regtype THEN '''00000000-002a-8000-8000-000000000000'''
		               WHEN i.type = 'uuid[]'::regtype THEN 'ARRAY[gen_random_uuid()]'
		               WHEN i.type IN ('integer'::regtype, 'bigint'::regtype, 'numeric'::regtype) THEN '1'
		               WHEN i.type = 'timestamptz'::regtype THEN 'now()'
		               WHEN i.type IN ('json'::regtype, 'jsonb'::regtype) THEN '''{}'''
		               ELSE '''x''' END || '::' || i.type::regtype, ', ' ORDER BY i.n)
		           FROM unnest(p.proargtypes::oid[], p.proargnames) WITH ORDINALITY AS i (type, name, n)
		           WHERE i.type IS NOT NULL AND i.n <= greatest(p.pronargs - p.pronargdefaults, a.n)) || ')',
		       a.name, a.type::regtype::text, a.n <= p.pronargs - p.pronargdefaults
		           AND p.proname || ' ' || a.name NOT LIKE ALL (SELECT '%' || i FROM unnest($3::text[]) AS i)
		FROM pg_proc AS p,
		     unnest(p.proargtypes::oid[], p.proargnames) WITH ORDINALITY AS a (type, name, n)
		WHERE p.pronamespace = $1::regnamespace AND a.type IS NOT NULL
		  AND p.proname NOT LIKE ALL (SELECT '%' || i || '%' FROM unnest($2::text[]) AS i)
		ORDER BY 1, a.n`, f.db.Schema, internals, nullable)
	must(f.t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[argument])
	must(f.t, err)
	return all
}

// Every function refuses NULL in each parameter that has to be given, and in arrays of ids NULL and too many elements:
// with SQLSTATE 22023, the parameter in the column of the error, and a hint, before anything is written or locked. A
// fetch also refuses tokens that are not of version 8, or of process 0.
func TestEveryFunctionRefusesNULL(t *testing.T) {
	f := newFixture(t)
	required, lists, fetches := 0, 0, 0
	for _, a := range f.arguments() {
		var values []string
		if a.Required {
			required++
			values = append(values, "NULL::"+a.Type)
		}
		if a.Type == "uuid[]" {
			lists++
			values = append(values, "ARRAY[gen_random_uuid(), NULL]", "ARRAY[ARRAY[gen_random_uuid()]]",
				fmt.Sprintf("array_fill(gen_random_uuid(), ARRAY[%d])", workqueue.MaxBatch+1))
		}
		if a.Name == "owner_token" && strings.HasSuffix(a.Function, "_fetch") {
			fetches++
			values = append(values, "gen_random_uuid()", "'00000000-0000-8000-8000-00000000002a'",
				"'00000000-0000-0000-0000-000000000000'")
		}
		for _, value := range values {
			f.refusesValue(a, value)
		}
	}
	if required < 100 || lists < 20 || fetches < 4 {
		t.Errorf("only %d required parameters, %d lists of ids and %d fetches are found", required, lists, fetches)
	}
}

func (f *fixture) refusesValue(a argument, value string) {
	f.t.Helper()
	call := fmt.Sprintf(strings.ReplaceAll(a.Call, "%s", "%[1]s"), value)
	if strings.HasPrefix(call, "CALL ") { // it commits, and so runs in no transaction of the test
		_, err := f.db.Pool.Exec(f.t.Context(), call)
		f.isRefusal(a, call, err)
		return
	}
	tx, err := f.db.Pool.Begin(f.t.Context())
	must(f.t, err)
	defer func() { must(f.t, tx.Rollback(f.t.Context())) }()
	part, err := tx.Begin(f.t.Context())
	must(f.t, err)
	_, err = part.Exec(f.t.Context(), call)
	f.isRefusal(a, call, err)
	must(f.t, part.Rollback(f.t.Context()))
	var written bool
	must(f.t, tx.QueryRow(f.t.Context(), "SELECT pg_current_xact_id_if_assigned() IS NOT NULL").Scan(&written))
	if written {
		f.t.Errorf("%s was refused after it had written or locked something", call)
	}
}

func (f *fixture) isRefusal(a argument, call string, err error) {
	f.t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "22023" || pg.ColumnName != a.Name || pg.Hint == "" ||
		!strings.HasPrefix(pg.Message, a.Name+" ") {
		f.t.Errorf("%s: %v", call, err)
	}
}
