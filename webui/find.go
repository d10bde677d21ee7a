package webui

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A findPage is what find.html shows.
type findPage struct {
	Asked  string
	IsID   bool
	Tables []string // that have the id, or whose rows may have the key
	Log    bool     // no table has the id, and the schema has a log whose messages may be searched
	Unread []string // that were not searched, because the role may not read them or they are none of txwork
}

// find leads to the row with an id, whatever table it is in. Of anything else it asks in which table it is a key.
func find(ctx context.Context, r *request) (view, error) {
	seen, err := r.seenTables(ctx)
	if err != nil {
		return view{}, err
	}
	p := findPage{Asked: strings.TrimSpace(r.query.Get("q")), Tables: seen.all()}
	v := view{title: "Find", page: "find.html", tables: seen.whole}
	id, err := uuid.Parse(p.Asked)
	if p.IsID = err == nil; p.IsID {
		if p.Tables, p.Unread, err = r.handler.tablesWith(ctx, seen.all(), id); err != nil {
			return view{}, err
		}
		if p.Tables, err = r.within(ctx, p.Tables, id); err != nil {
			return view{}, err
		}
		if len(p.Tables) == 0 {
			l, err := r.log(ctx)
			if err != nil {
				return view{}, err
			}
			p.Log = l != nil
		}
		if len(p.Tables) == 1 {
			v.to = "t/" + p.Tables[0] + "/row/" + id.String()
		}
	}
	v.data = p
	return v, nil
}

// within returns those of the tables in which the user sees the row.
func (r *request) within(ctx context.Context, tables []string, id uuid.UUID) (found []string, err error) {
	for _, name := range tables {
		if r.user.sees(name) {
			found = append(found, name)
			continue
		}
		t, _, err := r.rowsOf(ctx, name)
		if err != nil {
			return nil, err
		}
		mine, err := r.db().Within(ctx, t, []uuid.UUID{id}, r.among(name))
		if err != nil {
			return nil, err
		}
		if len(mine) > 0 {
			found = append(found, name)
		}
	}
	return found, nil
}

// tablesWith returns the tables that have a row with the id, and those that cannot be searched: a table that only has
// the comment of one of txwork must not keep the others from being searched.
func (h *handler) tablesWith(ctx context.Context, tables []string, id uuid.UUID) (found, unread []string, err error) {
	err = h.db.Read(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT t.name FROM unnest($2::text[]) WITH ORDINALITY AS t (name, place)
			JOIN pg_catalog.pg_class AS c ON c.relname = t.name
			    AND c.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1))
			JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'id' AND NOT a.attisdropped
			    AND a.atttypid = 'uuid'::pg_catalog.regtype
			WHERE has_column_privilege(c.oid, a.attnum, 'SELECT') ORDER BY t.place`, h.Schema, tables)
		if err != nil {
			return err
		}
		readable, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		if len(readable) == 0 {
			readable = tables // the error says what is wrong
		}
		for _, name := range tables {
			if !has(readable, name) {
				unread = append(unread, name)
			}
		}
		parts := make([]string, len(readable))
		for i, name := range readable {
			parts[i] = fmt.Sprintf("SELECT %d AS place FROM %s WHERE id = $1", i, pgx.Identifier{h.Schema, name}.Sanitize())
		}
		if rows, err = tx.Query(ctx, strings.Join(parts, " UNION ALL ")+" ORDER BY place", id); err != nil {
			return err
		}
		places, err := pgx.CollectRows(rows, pgx.RowTo[int])
		for _, place := range places {
			found = append(found, readable[place])
		}
		return err
	})
	return found, unread, err
}
