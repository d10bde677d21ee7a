package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/txwork/txwork/workqueue"
)

// partial says why numbers of rows are too small, and why rows are missing in lists.
const partial = "row-level security hides rows from the role, so there may be more; look as the owner of the tables, or " +
	"as a role with BYPASSRLS"

// looking calls do, and then says on the standard error output if row-level security hides rows of one of the tables,
// or of a table that belongs to one, from the role: what do found and counted is then a part, and a row that it did not
// find may exist. While do runs, d.Partial says so, too.
func (d *database) looking(ctx context.Context, do func() error, tables ...*workqueue.Table) error {
	hidden, err := d.Hidden(ctx, tables)
	if err != nil {
		return err
	}
	d.Partial = len(hidden) > 0
	err = do()
	if d.Partial {
		fmt.Fprintf(d.app.stderr, "txwork: %s: %s\n", strings.Join(hidden, ", "), partial)
	}
	return err
}
