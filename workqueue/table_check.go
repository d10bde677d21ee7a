package workqueue

import (
	"cmp"
	"reflect"
	"slices"
)

// checkLanes checks the lanes that a worker is to serve.
func (t *Table) checkLanes(lanes [][]any) error {
	if len(t.spec.Lanes) > 0 && len(lanes) == 0 {
		return invalid("lanes", "are missing: %s has the lanes %v", t.Name(), t.spec.Lanes)
	}
	for _, lane := range lanes {
		if err := t.checkLane(lane); err != nil {
			return err
		}
	}
	return t.checkOneRule(lanes)
}

// checkOneRule refuses lanes with different rules, because one claim asks one rule.
func (t *Table) checkOneRule(lanes [][]any) error {
	name := cmp.Or(t.spec.Admission, t.spec.Topics.Lane)
	i := slices.Index(t.spec.Lanes, name)
	for _, lane := range lanes {
		if i >= 0 && !reflect.DeepEqual(lane[i], lanes[0][i]) {
			return invalid("lanes", "name %v and %v for %s, each of which has rules of its own: make a worker for each",
				lanes[0][i], lane[i], name)
		}
	}
	return nil
}

func (t *Table) checkLane(lane []any) error {
	if len(lane) != len(t.spec.Lanes) {
		return invalid("lanes", "has %d values, %s has the lanes %v", len(lane), t.Name(), t.spec.Lanes)
	}
	for i, value := range lane {
		if _, err := t.laneValue(i, value); err != nil {
			return err
		}
	}
	return nil
}

// laneValue is the value of one of the table's lanes as it is sent.
func (t *Table) laneValue(i int, value any) (any, error) {
	return columnValue(t.view.Lanes[i].Column, value)
}
