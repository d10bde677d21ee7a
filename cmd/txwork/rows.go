package main

import (
	"slices"

	"github.com/txwork/txwork/internal/operate"
)

// nameColumns are the columns whose values are names. These are shown in full, and so that no two look alike.
var nameColumns = append([]string{"topic", "kind", "queue", "consumer", "subscription", "source", "schedule",
	"dedup_key"}, operate.KeyColumns...)

// cellsOf returns the values of the domain's columns as cells of a table.
func cellsOf(r *operate.Row, columns []operate.Column) []string {
	cells := make([]string, len(columns))
	for i, v := range r.Values(columns) {
		switch {
		case v.Null:
			cells[i] = "-"
		case v.Quoted && slices.Contains(nameColumns, columns[i].Name):
			cells[i] = named(v.Text)
		default:
			cells[i] = cell(v.Text, cellWidth)
		}
	}
	return cells
}
