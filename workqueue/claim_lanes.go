package workqueue

import (
	"slices"
	"time"
)

// laneArgs adds the values of lanes to a statement's arguments, one array a lane column.
func (t *Table) laneArgs(args map[string]any, lanes [][]any) map[string]any {
	for c, column := range t.view.Lanes {
		values := make([]any, len(lanes))
		for i, lane := range lanes {
			value, err := t.laneValue(c, lane[c])
			if err != nil {
				value = lane[c] // the database refuses it
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
	columns []int   // of the lanes, among those that a claim returns
	keys    [][]any // of each lane
	last    *int    // the lane of the row before: rows of one lane come together
}

// laneIndex returns an empty index if there is only one lane: every row is then in the first.
func (t *Table) laneIndex(lanes []claimLane) laneIndex {
	if len(lanes) < 2 {
		return laneIndex{}
	}
	x := laneIndex{table: t, last: new(int)}
	for _, name := range t.spec.Lanes {
		x.columns = append(x.columns, slices.IndexFunc(t.claimed, func(c Column) bool { return c.Name == name }))
	}
	for _, lane := range lanes {
		key := make([]any, len(lane.values))
		for c, value := range lane.values {
			key[c] = x.key(c, value)
		}
		x.keys = append(x.keys, key)
	}
	return x
}

// of finds the lane of a row by the destinations that it was scanned into. A value that does not come back as it
// was sent, such as the numeric 1 as 1.0, puts the row into the last lane: it is worked on all the same, and the next
// sweep finds what that lane's cursor may have passed over.
func (x laneIndex) of(domain []any) int {
	if len(x.keys) == 0 {
		return 0
	}
	if x.is(x.keys[*x.last], domain) {
		return *x.last
	}
	place := slices.IndexFunc(x.keys, func(key []any) bool { return x.is(key, domain) })
	if place < 0 {
		place = len(x.keys) - 1
	}
	*x.last = place
	return place
}

func (x laneIndex) is(key, domain []any) bool {
	for c, column := range x.columns {
		if !x.same(c, domain[column], key[c]) {
			return false
		}
	}
	return true
}

// same compares a destination with a lane's key. The most frequent types of lanes need no conversion.
func (x laneIndex) same(c int, value, key any) bool {
	switch k := key.(type) {
	case string:
		if v, ok := value.(*string); ok {
			return *v == k
		}
	case int64:
		if v, ok := value.(*int16); ok {
			return int64(*v) == k
		}
	}
	return x.key(c, value) == key
}

// key is the value of one of the lanes' columns in a form that == compares.
func (x laneIndex) key(c int, value any) any {
	v, err := x.table.laneValue(c, value)
	if err != nil {
		return nil
	}
	switch v := v.(type) {
	case []byte:
		return string(v)
	case time.Time:
		return v.UnixMicro()
	}
	return v
}
