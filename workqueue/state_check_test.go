package workqueue_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// Each status goes with certain times and no others: the table accepts these rows and refuses all others, whichever
// program writes them.
func TestTheStateOfARowIsChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	check := ask[string](r, `SELECT string_agg('(' || pg_get_expr(conbin, conrelid) || ')', ' AND ') FROM pg_constraint
		WHERE conrelid = 'notes'::regclass AND conname IN ('notes_state_check', 'notes_attempts_check')`)
	const rows = `(SELECT status::smallint, attempts, 2 AS max_attempts, locked_until, completed_at, failed_at, owner_token, waiting, cancelled_at
		FROM generate_series(-1, 5) AS status, generate_series(-1, 3) AS attempts,
			(VALUES (NULL), (now())) AS l (locked_until), (VALUES (NULL), (now())) AS c (completed_at), (VALUES (NULL), (now())) AS f (failed_at),
			(VALUES (NULL), (gen_random_uuid())) AS o (owner_token), (VALUES (false), (true)) AS w (waiting),
			(VALUES (NULL), (now())) AS x (cancelled_at)) AS t`
	const meant = `attempts >= 0 AND CASE status
		WHEN 0 THEN locked_until IS NULL AND completed_at IS NULL AND failed_at IS NULL AND attempts < max_attempts
			AND cancelled_at IS NULL
		WHEN 1 THEN locked_until IS NOT NULL AND completed_at IS NULL AND failed_at IS NULL AND owner_token IS NOT NULL AND NOT waiting
			AND attempts <= max_attempts
		WHEN 2 THEN locked_until IS NULL AND completed_at IS NOT NULL AND failed_at IS NULL
		WHEN 3 THEN locked_until IS NULL AND completed_at IS NOT NULL AND failed_at IS NOT NULL
		ELSE false END`
	for what, query := range map[string]string{
		"accepted and not meant": "SELECT count(*) FROM " + rows + " WHERE (" + check + ") IS NOT FALSE AND NOT (" +
			meant + ")",
		"meant and not accepted": "SELECT count(*) FROM " + rows + " WHERE (" + check + ") IS NOT TRUE AND " + meant,
	} {
		if n := ask[int](r, query); n > 0 {
			t.Errorf("%d kinds of rows are %s by %s", n, what, check)
		}
	}
	if n := ask[int](r, "SELECT count(*) FROM "+rows+" WHERE "+meant); n != 8+6+32+32 {
		t.Errorf("%d kinds of rows are meant, want 78", n)
	}
}

// SQL may allow a row the greatest number of attempts. Such a row goes every way that others go, and stops none.
func TestARowAtTheGreatestNumberOfAttempts(t *testing.T) {
	t.Parallel()
	for most := range 2 {
		t.Run(fmt.Sprint(math.MaxInt32-most), func(t *testing.T) { goEveryWay(t, math.MaxInt32-most) })
	}
}

func goEveryWay(t *testing.T, maxAttempts int) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids := r.insertMany("edge", 6)
	r.exec("UPDATE notes SET max_attempts = $1, attempts = $1 - 1", maxAttempts)
	q, ctx := r.Table.On(r.Pool), t.Context()
	if cancelled, err := q.Cancel(ctx, ids[5:], "no"); err != nil || len(cancelled) != 1 {
		t.Errorf("cancelled %v, %v", cancelled, err)
	}
	owner, dead := workqueue.NewOwnerToken(), workqueue.NewOwnerToken()
	dead[0]++ // another process
	for by, want := range map[uuid.UUID][]uuid.UUID{owner: ids[:4], dead: ids[4:5]} {
		r.exec("UPDATE notes SET due_at = CASE WHEN id = ANY ($1) THEN now() ELSE now() + interval '1 hour' END "+
			"WHERE status = 0", want)
		if rows, err := q.Claim(ctx, by, time.Minute, 10); err != nil || len(rows) != len(want) {
			t.Fatalf("claimed %d rows of %d, %v", len(rows), len(want), err)
		}
	}
	if _, err := q.Ack(ctx, owner, ids[:1]); err != nil {
		t.Error(err)
	}
	if _, err := q.Fail(ctx, owner, ids[1:2], "no"); err != nil {
		t.Error(err)
	}
	r.exec("SELECT notes_retry($1, $2, NULL, 'no')", owner, ids[2:3])
	if _, err := q.Extend(ctx, owner, ids[3:4], time.Minute); err != nil {
		t.Error(err)
	}
	r.exec("UPDATE notes SET locked_until = now() - interval '1 second' WHERE id = $1", ids[4])
	if reaped, err := q.ReapExpired(ctx, 10); err != nil || reaped.Failed != 1 {
		t.Errorf("reaped %+v, %v", reaped, err)
	}
	r.awaitStatus(workqueue.Done, ids[0])
	r.awaitStatus(workqueue.Failed, ids[1], ids[2], ids[4], ids[5])
	r.awaitStatus(workqueue.InProgress, ids[3])
}
