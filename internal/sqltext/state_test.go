package sqltext_test

import (
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/sqltext"
)

func TestConditionsWithinStates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		statuses []int
		states   []string
		want     string
	}{
		{nil, nil, ""},
		{[]int{3, 2, 1, 0}, nil, ""},
		{[]int{1}, nil, "t.status = ANY ('{1}'::smallint[]) AND t.completed_at IS NULL AND NOT t.waiting"},
		{[]int{0, 1}, nil, "t.status = ANY ('{0,1}'::smallint[]) AND t.completed_at IS NULL"},
		{nil, []string{"expired", "in_progress"},
			"t.status = ANY ('{1}'::smallint[]) AND t.completed_at IS NULL AND NOT t.waiting"},
		{nil, []string{"waiting"}, "t.status = ANY ('{0}'::smallint[]) AND t.completed_at IS NULL AND t.waiting"},
		{nil, []string{"scheduled", "waiting"}, "t.status = ANY ('{0}'::smallint[]) AND t.completed_at IS NULL"},
		{nil, []string{"ready", "scheduled"},
			"t.status = ANY ('{0}'::smallint[]) AND t.completed_at IS NULL AND NOT t.waiting"},
		{nil, []string{"failed", "cancelled"}, "t.failed_at IS NOT NULL"},
		{nil, []string{"done", "ready"}, "t.status = ANY ('{0,2}'::smallint[])"},
		{[]int{1}, []string{"waiting", "in_progress"},
			"t.status = ANY ('{1}'::smallint[]) AND t.completed_at IS NULL AND NOT t.waiting"},
		{[]int{2}, []string{"ready"}, "t.status = ANY ('{}'::smallint[])"},
	} {
		got := strings.Join(sqltext.WithinStates("t", test.statuses, test.states), " AND ")
		if got != test.want {
			t.Errorf("%v, %v: %s, want %s", test.statuses, test.states, got, test.want)
		}
	}
}
