package operate

import "slices"

// listedColumns name, for each table that the migrations create, the columns that fit on a line.
var listedColumns = map[string][]string{
	"outbox":          {"topic", "key", "dedup_key"},
	"inbox":           {"consumer", "source", "message_id", "topic"},
	"timers":          {"key", "topic", "fire_at", "schedule"},
	"timers_schedule": {"name", "expr", "zone", "paused", "next_at"},
	"jobs":            {"kind", "queue", "priority", "unique_key", "schedule", "progress"},
	"jobs_schedule":   {"name", "expr", "zone", "paused", "next_at"},

	"outbox_log_parked": {"subscription", "topic", "key"},
}

// ListedColumns returns the columns of a table that a list shows: all of an application's own table.
func ListedColumns(table string, all []Column) []Column {
	list, ok := listedColumns[table]
	if !ok {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Column) bool { return !slices.Contains(list, c.Name) })
}

// Rare tells whether a column of a table that the migrations create is left out while it is NULL, because only some
// uses set it.
func Rare(table, column string) bool {
	list, ok := listedColumns[table]
	return ok && !slices.Contains(list, column)
}
