package keys

import (
	"fmt"

	"github.com/txwork/txwork/workqueue/internal/aside"
)

// Rows are those of a table.
type Rows struct{ HasTopics bool }

// condition renders the condition of an index by key. It is a CASE so that it does not imply the condition of another
// index. If the table was last analysed while all rows waited, the claim index seems to have one row, and to be as good
// as the index by key. A plan that was made then would read all live rows for each key.
func condition(row, of, is string) string {
	if row != "" {
		row += "."
	}
	return fmt.Sprintf("CASE WHEN "+of+" THEN "+is+" END", row)
}

const (
	ordered = "%[1]scompleted_at IS NULL AND %[1]skey_seq IS NOT NULL AND %[1]skey_limit = 0"
	limited = "%[1]scompleted_at IS NULL AND %[1]skey_seq IS NOT NULL AND %[1]skey_limit > 0"
)

// OrderedWaits and LimitedWaits are the conditions of rows that wait for their key. Live is the condition of released
// rows, and Obstacle that of dead letters that block their key.
func (r Rows) OrderedWaits(row string) string { return condition(row, ordered, r.Wait(row)) }
func (r Rows) LimitedWaits(row string) string { return condition(row, limited, r.Wait(row)) }
func (r Rows) Live(row string) string {
	return condition(row, "%[1]scompleted_at IS NULL AND %[1]skey_seq IS NOT NULL", r.Released(row))
}
func (Rows) Obstacle(row string) string {
	return condition(row, "%[1]sfailed_at IS NOT NULL AND %[1]scancelled_at IS NULL", "%[1]skey_policy > 0")
}

// Wait is the condition that a row which has a place waits for its key, and Released that it does not. A released row
// that a claim has set aside, because its topic may not start it now, is still a released one.
func (r Rows) Wait(row string) string { return aside.Not(r.HasTopics, row, column(row, "waiting")) }
func (r Rows) Released(row string) string {
	return aside.Or(r.HasTopics, row, "NOT "+column(row, "waiting"))
}

func column(row, name string) string {
	if row == "" {
		return name
	}
	return row + "." + name
}
