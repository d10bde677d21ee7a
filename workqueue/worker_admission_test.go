package workqueue_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// byRule makes topics the lanes, each with a rule.
func byRule(s *workqueue.Spec) {
	byTopic(s)
	s.Admission = "topic"
}

// everything is a rule that lets every row pass.
const everything = `
	CREATE FUNCTION notes_admit(topic text, want integer)
	RETURNS TABLE (admitted integer, again double precision, bounded boolean, held text)
	LANGUAGE sql AS $$SELECT want, 0::double precision, true, NULL$$;
	CREATE FUNCTION notes_starts(topic text, want integer) RETURNS bigint[] LANGUAGE sql AS 'SELECT NULL::bigint[]';
	CREATE FUNCTION notes_permit(topic text, want integer) RETURNS integer[] LANGUAGE sql AS 'SELECT NULL::integer[]';
	CREATE FUNCTION notes_take(topic text, owner_token uuid, ids uuid[], permits integer[], starts bigint[])
	RETURNS void LANGUAGE sql AS '';
	CREATE FUNCTION notes_give_start(topic text, owner_token uuid, ids uuid[]) RETURNS void LANGUAGE sql AS ''`

// quota is a rule that lets rows pass until a quota that the database keeps is used up.
const quota = `
	CREATE TABLE $quota AS SELECT 7 AS n;
	CREATE TABLE $taken (id uuid);
	CREATE FUNCTION notes_admit(topic text, want integer)
	RETURNS TABLE (admitted integer, again double precision, bounded boolean, held text)
	LANGUAGE sql AS $$SELECT least(q.n, want), 0.02::double precision, true, 'rate' FROM $quota AS q FOR UPDATE$$;
	CREATE FUNCTION notes_starts(topic text, want integer) RETURNS bigint[] LANGUAGE sql AS 'SELECT NULL::bigint[]';
	CREATE FUNCTION notes_permit(topic text, want integer) RETURNS integer[] LANGUAGE sql AS 'SELECT NULL::integer[]';
	CREATE FUNCTION notes_take(topic text, owner_token uuid, ids uuid[], permits integer[], starts bigint[])
	RETURNS void LANGUAGE sql AS '
		UPDATE $quota SET n = n - cardinality(ids);
		INSERT INTO $taken SELECT unnest(ids)';
	CREATE FUNCTION notes_give_start(topic text, owner_token uuid, ids uuid[]) RETURNS void LANGUAGE sql AS '
		UPDATE $quota SET n = quota.n + cardinality($3)'`

func TestAdmissionBoundsClaims(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: byRule})
	r.exec(strings.NewReplacer("$quota", r.Schema+".quota", "$taken", r.Schema+".taken").Replace(quota))
	ids := r.insertMany("a", 20)
	for range 3 { // share the quota
		r.serving(lanes("a")).start(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	}
	r.eventually("the quota is used up", func() bool { return r.count("status = 2") == 7 })
	if n := r.count("attempts > 0"); n != 7 {
		t.Errorf("%d rows were claimed, the quota was 7", n)
	}
	r.exec("UPDATE quota SET n = 100") // without a notification
	r.awaitStatus(workqueue.Done, ids...)
	if n := ask[int](r, "SELECT count(DISTINCT id)::int FROM taken JOIN notes USING (id)"); n != 20 {
		t.Errorf("take was told of %d rows, want 20", n)
	}
}

// Every way to claim asks the rule: the low-level claim and the SQL function.
func TestNoClaimPassesAdmission(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: byRule})
	r.exec(strings.NewReplacer("$quota", r.Schema+".quota", "$taken", r.Schema+".taken").Replace(quota))
	r.insertMany("a", 20)
	if rows, err := r.Queue.Claim(t.Context(), workqueue.NewOwnerToken(),
		time.Minute, 2, "a"); err != nil || len(rows) != 2 ||
		rows[0].Values[0] != "a" {
		t.Errorf("the low-level claim took %d rows, %v: %+v", len(rows), err, rows)
	}
	if n := ask[int](r, "SELECT count(id)::int FROM notes_fetch($1, '60 s', 3, 'a')",
		workqueue.NewOwnerToken()); n != 3 {
		t.Errorf("notes_fetch took %d rows, want 3", n)
	}
	got := ask[[]string](r, "SELECT array_agg(topic || ' ' || attempts || ' ' || payload) FROM "+
		"notes_fetch($1, '60 s', 9, 'a') WHERE entry = 'row'", workqueue.NewOwnerToken())
	if !slices.Equal(got, slices.Repeat([]string{"a 1 payload of a"}, 2)) {
		t.Errorf("notes_fetch gave %q, want the last two, as they are claimed", got)
	}
	if rows, err := r.Queue.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 2,
		"a"); err != nil || len(rows) != 0 {
		t.Errorf("a claim took %d rows of a quota that is used up, %v", len(rows), err)
	}
	if n := ask[int](r, "SELECT count(*)::int FROM taken"); n != 7 {
		t.Errorf("take was told of %d rows, want 7", n)
	}
}

func TestFailedAdmissionClaimsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: byRule})
	ids := r.insertMany("a", 3)
	r.serving(lanes("a")).start(workqueue.WorkerOptions{}, ackAll)
	r.eventually("the error is logged", func() bool { return strings.Contains(r.Logs.String(), "notes_admit") })
	if n := r.count("attempts = 0"); n != len(ids) {
		t.Errorf("%d of %d rows are untouched", n, len(ids))
	}
}

func TestOneWorkerHasOneRule(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: byRule})
	if _, err := workqueue.NewWorker(r.Pool, r.serving(lanes("a", "b")).Domain, ackAll,
		workqueue.WorkerOptions{}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("lanes of two rules: %v", err)
	}
	spec := r.Spec
	spec.Admission = "payload"
	if err := spec.Validate(); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("an Admission that is no lane: %v", err)
	}
}
