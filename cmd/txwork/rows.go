package main

import (
	"encoding/json"
	"slices"

	"github.com/txwork/txwork/internal/operate"
)

// nameColumns are the columns whose values are names. These are shown in full, and so that no two look alike.
var nameColumns = append([]string{"topic", "kind", "queue", "consumer", "source", "schedule", "dedup_key"},
	operate.KeyColumns...)

// cellsOf returns the values of the domain's columns as cells of a table.
func cellsOf(r *operate.Row, columns []operate.Column) []string {
	var values map[string]json.RawMessage
	json.Unmarshal([]byte(r.Columns), &values) // cannot fail: the server made the document
	cells := make([]string, len(columns))
	for i, c := range columns {
		raw := values[c.Name]
		var text string
		switch {
		case len(raw) == 0 || string(raw) == "null":
			cells[i] = "-"
		case json.Unmarshal(raw, &text) != nil:
			cells[i] = cell(string(raw), cellWidth)
		case slices.Contains(nameColumns, c.Name):
			cells[i] = named(text)
		default:
			cells[i] = cell(text, cellWidth)
		}
	}
	return cells
}
