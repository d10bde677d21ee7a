package conformance

import (
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// everyState tries an update to each combination of the columns that a row's state consists of, undoes it, and counts
// those that the table accepts, by status. Columns that are not set are NULL.
const everyState = `
CREATE OR REPLACE FUNCTION pg_temp.accepted(victim uuid) RETURNS TABLE (tried integer, sets text, accepted boolean)
LANGUAGE plpgsql AS $$
DECLARE
    names constant text[] := '{completed_at, failed_at, locked_until, cancelled_at, owner_token, waiting}';
    given constant text[] := '{now(), now(), now(), now(), gen_random_uuid(), true}';
    assign text;
BEGIN
    FOR status IN -1 .. 4 LOOP
        FOR bits IN 0 .. 63 LOOP
            tried := status;
            sets := '';
            assign := format('status = %s', status);
            FOR i IN 1 .. 6 LOOP
                IF bits >> (i - 1) & 1 = 1 THEN
                    sets := sets || ' ' || names[i];
                END IF;
                assign := format('%s, %s = %s', assign, names[i], CASE WHEN bits >> (i - 1) & 1 = 1 THEN given[i]
                    WHEN names[i] = 'waiting' THEN 'false' ELSE 'NULL' END);
            END LOOP;
            BEGIN
                EXECUTE format('UPDATE $T SET %s WHERE id = $1', assign) USING victim;
                accepted := true;
                RAISE EXCEPTION 'undo' USING ERRCODE = 'TX001';
            EXCEPTION
                WHEN check_violation THEN accepted := false;
                WHEN SQLSTATE 'TX001' THEN NULL;
            END;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END $$`

// The constraints refuse each combination of the state's columns that no transition leaves, and no other. They see one
// row as it will be: they cannot refuse a transition between two states that both exist.
func constraintsKnowTheStates(s *suite) {
	id := s.ready(1)[0]
	conn, err := s.eyes.Acquire(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(s.Context(), s.sql(everyState)); err != nil {
		s.Fatal(err)
	}
	rows, err := conn.Query(s.Context(), "SELECT tried, sets, accepted FROM pg_temp.accepted($1)", id)
	if err != nil {
		s.Fatal(err)
	}
	n := 0
	var status int
	var sets string
	var accepted bool
	_, err = pgx.ForEachRow(rows, []any{&status, &sets, &accepted}, func() error {
		if want := isState(workqueue.Status(status), strings.Fields(sets)); accepted != want {
			s.Errorf("status %d with%s: accepted is %v", status, sets, accepted)
		}
		n++
		return nil
	})
	if err != nil || n != 6*64 {
		s.Errorf("%d combinations were tried, error %v", n, err)
	}
}

// isState reports whether a row can have the status while the columns are set, and the others are not.
func isState(status workqueue.Status, sets []string) bool {
	has := func(column string) bool { return slices.Contains(sets, column) }
	ended, failed, locked := has("completed_at"), has("failed_at"), has("locked_until")
	switch status {
	case workqueue.Ready:
		return !ended && !failed && !locked && !has("cancelled_at")
	case workqueue.InProgress:
		return !ended && !failed && locked && has("owner_token") && !has("waiting")
	case workqueue.Done:
		return ended && !failed && !locked
	case workqueue.Failed:
		return ended && failed && !locked
	}
	return false
}
