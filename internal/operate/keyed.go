package operate

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// A keyIndex is an index whose first column is one of the KeyColumns.
type keyIndex struct {
	Column string
	Where  string // its predicate; empty for none
}

func readKeyIndexes(ctx context.Context, tx pgx.Tx, spec workqueue.Spec) ([]keyIndex, error) {
	return structs[keyIndex](ctx, tx, `
		SELECT a.attname::text AS column, coalesce(pg_catalog.pg_get_expr(x.indpred, x.indrelid), '') AS where
		FROM pg_catalog.pg_index AS x
		JOIN pg_catalog.pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
		WHERE x.indrelid = to_regclass($1) AND x.indisvalid AND a.attname = ANY ($2::text[])`,
		pgx.Identifier{spec.Schema, spec.Table}.Sanitize(), KeyColumns)
}

// liveKeyIndexes is how many indexes have all live rows with a place by concurrency_key: the waiting rows of ordered
// keys, those of limited keys, and the released rows. A fourth has dead letters that block their key. A row that waits
// for something else first, such as a join, has no place yet, and is in none of them: only rows of the claim index,
// which does not have those that wait, are sure to have a place.
const liveKeyIndexes = 3

// byKey returns conditions on rows k: each row with the {key} meets one of them, and an index serves each. There are
// none if no index has all rows of the listing by one of the columns that the key is compared with.
func (q listQuery) byKey(indexes []keyIndex) (conditions []string) {
	for _, name := range KeyColumns {
		if !q.layout.Has(name) {
			continue
		}
		equal := "k." + Column{Name: name}.Quoted() + " = {key}"
		var parts []string
		whole := false
		for _, index := range indexes {
			switch {
			case index.Column != name:
			case index.Where == "" || index.Where == "("+name+" IS NOT NULL)":
				whole, parts = true, []string{equal}
			case !whole:
				parts = append(parts, equal+" AND "+index.Where)
			}
		}
		if !whole && !(name == "concurrency_key" && q.lanes && len(parts) > liveKeyIndexes) {
			return nil
		}
		conditions = append(conditions, parts...)
	}
	return conditions
}

// withKey bounds a listing to the rows with a key, if indexes find these.
func (q listQuery) withKey(value string) string {
	if len(q.found) == 0 || value == "" {
		return ""
	}
	parts := make([]string, len(q.found))
	for i, condition := range q.found {
		parts[i] = fmt.Sprintf("SELECT k.id FROM %s AS k WHERE %s", q.layout.Table,
			strings.ReplaceAll(condition, "{key}", value))
	}
	return " AND r.id = ANY (ARRAY(" + strings.Join(parts, " UNION ALL ") + "))"
}
