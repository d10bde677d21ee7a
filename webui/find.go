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
}

// find leads to the row with an id, whatever table it is in. Of anything else it asks in which table it is a key.
func find(ctx context.Context, r *request) (view, error) {
	tables, err := r.tables(ctx)
	if err != nil {
		return view{}, err
	}
	p := findPage{Asked: strings.TrimSpace(r.query.Get("q")), Tables: tables}
	v := view{title: "Find", page: "find.html", tables: tables}
	id, err := uuid.Parse(p.Asked)
	if p.IsID = err == nil; p.IsID {
		if p.Tables, err = r.handler.tablesWith(ctx, tables, id); err != nil {
			return view{}, err
		}
		if len(p.Tables) == 1 {
			v.to = "t/" + p.Tables[0] + "/row/" + id.String()
		}
	}
	v.data = p
	return v, nil
}

// tablesWith returns the tables that have a row with the id.
func (h *handler) tablesWith(ctx context.Context, tables []string, id uuid.UUID) (found []string, err error) {
	parts := make([]string, len(tables))
	for i, name := range tables {
		parts[i] = fmt.Sprintf("SELECT %d AS place FROM %s WHERE id = $1", i, pgx.Identifier{h.Schema, name}.Sanitize())
	}
	err = h.db.Read(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, strings.Join(parts, " UNION ALL ")+" ORDER BY place", id)
		if err != nil {
			return err
		}
		places, err := pgx.CollectRows(rows, pgx.RowTo[int])
		for _, place := range places {
			found = append(found, tables[place])
		}
		return err
	})
	return found, err
}
