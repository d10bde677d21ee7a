package workqueue

import (
	"slices"
	"time"
)

// fairEvery is how often a claim begins with another lane than the most urgent one, each of them in its turn:
// under a load of urgent rows that never ends, the others share one claim in eight.
const fairEvery = 8

// order is the lanes as the next claim goes through them.
func (c *claimer) order() []*lane {
	c.turn++
	others := len(c.lanes) - 1
	if others == 0 || c.turn%fairEvery != 0 {
		return c.lanes
	}
	first := others - c.turn/fairEvery%others // from the least urgent one up
	return append([]*lane{c.lanes[first]}, slices.Delete(slices.Clone(c.lanes), first, first+1)...)
}

// laneArgs adds the values of lanes to a statement's arguments, one array a lane column.
func (t *Table) laneArgs(args map[string]any, lanes [][]any) map[string]any {
	for c, column := range t.view.Lanes {
		values := make([]any, len(lanes))
		for i, lane := range lanes {
			value, err := t.laneValue(c, lane[c])
			if err != nil {
				value = lane[c] // for the database to refuse
			}
			values[i] = value
		}
		args[column.Param] = values
	}
	return args
}

// A laneIndex finds a claimed row's place among the lanes of its claim.
type laneIndex struct {
	table   *Table
	columns []int   // of the lanes, among the table's
	keys    [][]any // of each lane
}

// laneIndex is empty, and every row is in the first lane, where there is only one.
func (t *Table) laneIndex(lanes []claimLane) laneIndex {
	if len(lanes) < 2 {
		return laneIndex{}
	}
	x := laneIndex{table: t}
	for _, name := range t.spec.Lanes {
		x.columns = append(x.columns, slices.IndexFunc(t.spec.Columns, func(c Column) bool { return c.Name == name }))
	}
	for _, lane := range lanes {
		x.keys = append(x.keys, x.key(func(i int) any { return lane.values[i] }))
	}
	return x
}

// of finds the lane of a row by the destinations that it was scanned into. A value that does not come back as it
// was sent, such as the numeric 1 as 1.0, puts the row into the last lane: it is worked on all the same, and the next sweep
// finds what that lane's cursor may have passed over.
func (x laneIndex) of(domain []any) int {
	if len(x.keys) == 0 {
		return 0
	}
	key := x.key(func(i int) any { return domain[x.columns[i]] })
	place := slices.IndexFunc(x.keys, func(k []any) bool { return slices.Equal(k, key) })
	if place < 0 {
		return len(x.keys) - 1
	}
	return place
}

func (x laneIndex) key(value func(i int) any) []any {
	key := make([]any, len(x.columns))
	for i := range key {
		v, err := x.table.laneValue(i, value(i))
		if err == nil {
			key[i] = comparableValue(v)
		}
	}
	return key
}

// comparableValue is a column's value in a form that == compares.
func comparableValue(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case time.Time:
		return v.UnixMicro()
	}
	return v
}
