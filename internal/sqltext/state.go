package sqltext

import (
	"fmt"
	"slices"
	"strings"
)

// StatesOf is an expression for the names of the states that a row of the alias has, as an array. See
// workqueue.State.
func StatesOf(alias string) string {
	return strings.ReplaceAll(`CASE
      WHEN @.status = 0 AND @.waiting THEN '{waiting}'
      WHEN @.status = 0 AND @.due_at > now() THEN '{scheduled}'
      WHEN @.status = 0 THEN '{ready}'
      WHEN @.status = 1 AND @.locked_until < now() THEN '{in_progress,expired}'
      WHEN @.status = 1 THEN '{in_progress}'
      WHEN @.status = 2 THEN '{done}'
      WHEN @.cancelled_at IS NULL THEN '{failed}'
      ELSE '{cancelled}' END::text[]`, "@", alias)
}

// The status of each state that is not Ready.
var statusOf = map[string]int{"in_progress": 1, "expired": 1, "done": 2, "failed": 3, "cancelled": 3}

// WithinStates returns conditions that rows of the alias meet if they have one of some statuses and are in one of some
// states; an empty list means any. The condition by [StatesOf] is needed, too, but tells the planner nothing: by these
// it can use the partial indexes of the table, and knows how few of the rows there are.
func WithinStates(alias string, statuses []int, states []string) (conditions []string) {
	within := []int{0, 1, 2, 3}
	keep := func(is func(status int) bool) {
		within = slices.DeleteFunc(within, func(status int) bool { return !is(status) })
	}
	if len(statuses) > 0 {
		keep(func(status int) bool { return slices.Contains(statuses, status) })
	}
	if len(states) > 0 {
		keep(func(status int) bool {
			return slices.ContainsFunc(states, func(state string) bool { return statusOf[state] == status })
		})
	}
	if len(within) == 4 {
		return nil
	}
	if len(within) == 1 && within[0] == 3 {
		return []string{alias + ".failed_at IS NOT NULL"} // which only these have
	}
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(within), " ", ","), "[]")
	conditions = []string{fmt.Sprintf("%s.status = ANY ('{%s}'::smallint[])", alias, text)}
	if len(within) == 0 || within[len(within)-1] > 1 {
		return conditions
	}
	conditions = append(conditions, alias+".completed_at IS NULL")
	others := slices.ContainsFunc(states, func(state string) bool { return state != "waiting" })
	switch {
	case within[0] == 1 || others && !slices.Contains(states, "waiting"):
		conditions = append(conditions, "NOT "+alias+".waiting")
	case len(states) > 0 && !others:
		conditions = append(conditions, alias+".waiting")
	}
	return conditions
}
