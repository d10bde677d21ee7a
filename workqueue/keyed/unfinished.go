package keyed

import (
	"fmt"

	"github.com/txwork/txwork/workqueue"
)

// Unfinished is SQL for a move of ordered rows to another table. Rows is a query of the rows of the keys in an array
// that have not ended, and of the dead letters that block them: their key, their id and whether they are in progress.
// Blocking is the condition of such a dead letter. They read the indexes of the table.
func Unfinished(spec workqueue.Spec, keys, row string) (rows, blocking string) {
	v := newView(spec)
	query := func(is string) string {
		return fmt.Sprintf("SELECT r.concurrency_key, r.id, r.status = 1 AS runs FROM %s AS r\n"+
			"            WHERE r.concurrency_key = ANY (%s) AND %s", v.Table(), keys, is)
	}
	const union = "\n            UNION ALL "
	return query(v.OrderedWaits("r")) + union + query(v.Live("r")) + union + query(v.Obstacle("r")), v.Obstacle(row)
}

// LimitedRows are conditions of rows whose key has a limit: that they wait, and, of rows of all keys, that they are
// released. They are those of the indexes of the table.
func LimitedRows(spec workqueue.Spec, row string) (waits, live string) {
	v := newView(spec)
	return v.LimitedWaits(row), v.Live(row)
}
