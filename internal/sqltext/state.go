package sqltext

import "strings"

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
