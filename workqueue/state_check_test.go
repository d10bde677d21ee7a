package workqueue_test

import "testing"

// Each status goes with certain times and no others: the table accepts these rows and refuses all others, whichever
// program writes them.
func TestTheStateOfARowIsChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	check := ask[string](r, `SELECT string_agg('(' || pg_get_expr(conbin, conrelid) || ')', ' AND ') FROM pg_constraint
		WHERE conrelid = 'notes'::regclass AND conname IN ('notes_state_check', 'notes_attempts_check')`)
	const rows = `(SELECT status::smallint, attempts, 2 AS max_attempts, locked_until, completed_at, failed_at, owner_token, waiting
		FROM generate_series(-1, 5) AS status, generate_series(-1, 3) AS attempts,
			(VALUES (NULL), (now())) AS l (locked_until), (VALUES (NULL), (now())) AS c (completed_at), (VALUES (NULL), (now())) AS f (failed_at),
			(VALUES (NULL), (gen_random_uuid())) AS o (owner_token), (VALUES (false), (true)) AS w (waiting)) AS t`
	const meant = `attempts >= 0 AND CASE status
		WHEN 0 THEN locked_until IS NULL AND completed_at IS NULL AND failed_at IS NULL AND attempts < max_attempts
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
	if n := ask[int](r, "SELECT count(*) FROM "+rows+" WHERE "+meant); n != 8+3+16+16 {
		t.Errorf("%d kinds of rows are meant, want 43", n)
	}
}
