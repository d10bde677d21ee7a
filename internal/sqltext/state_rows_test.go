package sqltext_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

// oneOfEach has a row in each state that the table's constraints allow; one that is to be cancelled runs.
const oneOfEach = `(SELECT status::smallint, waiting, now() + due * interval '1 hour' AS due_at,
		CASE WHEN status = 1 THEN now() + lease * interval '1 hour' END AS locked_until,
		CASE WHEN status > 1 THEN now() END AS completed_at, CASE WHEN status > 2 THEN now() END AS failed_at,
		CASE WHEN cancelled THEN now() END AS cancelled_at
	FROM (VALUES (0, true, -1, 0, false), (0, true, 1, 0, false), (0, false, -1, 0, false), (0, false, 1, 0, false),
		(1, false, -1, 1, false), (1, false, -1, -1, true), (2, false, -1, 0, false), (3, false, -1, 0, false),
		(3, false, 1, 0, true)) AS v (status, waiting, due, lease, cancelled)) AS t`

// Whichever statuses and states are asked for, the conditions that they imply leave out none of their rows.
func TestConditionsWithinStatesLeaveOutNoRow(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for statuses := range subsets([]int{0, 1, 2, 3}) {
		var lost []string
		for states := range subsets(workqueue.States()) {
			texts := make([]string, len(states))
			for i, s := range states {
				texts[i] = string(s)
			}
			within := append([]string{"true"}, sqltext.WithinStates("t", statuses, texts)...)
			lost = append(lost, fmt.Sprintf(`SELECT '%[2]v' FROM %[1]s WHERE (%[3]t OR '{%[2]s}'::text[] && %[4]s)
				AND (%[5]t OR t.status = ANY ('{%[6]s}')) AND (%[7]s) IS NOT TRUE`, oneOfEach, strings.Join(texts, ","),
				len(states) == 0, sqltext.StatesOf("t"), len(statuses) == 0,
				strings.Trim(strings.ReplaceAll(fmt.Sprint(statuses), " ", ","), "[]"), strings.Join(within, " AND ")))
		}
		var of []string
		query := "SELECT array_agg(DISTINCT l.of) FROM (" + strings.Join(lost, " UNION ALL ") + ") AS l (of)"
		if err := db.Pool.QueryRow(t.Context(), query).Scan(&of); err != nil {
			t.Fatal(err)
		}
		if len(of) > 0 {
			t.Errorf("with the statuses %v, rows are left out of those in %q", statuses, of)
		}
	}
}

// subsets yields all subsets of a list, in the order of the list.
func subsets[T any](list []T) func(yield func([]T) bool) {
	return func(yield func([]T) bool) {
		for bits := range 1 << len(list) {
			var some []T
			for i, item := range list {
				if bits>>i&1 == 1 {
					some = append(some, item)
				}
			}
			if !yield(some) {
				return
			}
		}
	}
}
