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
// find may exist. While do runs, d.partial says so, too.
func (d *database) looking(ctx context.Context, do func() error, tables ...*workqueue.Table) error {
	hidden, err := d.hiding(ctx, tables)
	if err != nil {
		return err
	}
	d.partial = len(hidden) > 0
	err = do()
	if d.partial {
		fmt.Fprintf(d.app.stderr, "txwork: %s: %s\n", strings.Join(hidden, ", "), partial)
	}
	return err
}

// hiding returns the names of those of the tables of which the role sees a part.
func (d *database) hiding(ctx context.Context, tables []*workqueue.Table) (hidden []string, err error) {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.Spec().Table
	}
	const query = `
		SELECT $1::text || '.' || t.name FROM unnest($2::text[]) WITH ORDINALITY AS t (name, place)
		WHERE EXISTS (SELECT FROM pg_catalog.pg_class AS c
		    WHERE c.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) AND c.relrowsecurity
		      AND (c.relname = t.name OR pg_catalog.starts_with(c.relname::text, t.name || '_'))
		      AND pg_catalog.row_security_active(c.oid))
		ORDER BY t.place`
	err = d.reader.SelectContext(ctx, &hidden, query, d.schema, names)
	return hidden, err
}
