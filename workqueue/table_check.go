package workqueue

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/postgres"
)

// Bounds of a due time. A value outside them is a unit mistake, such as milliseconds taken for seconds.
var (
	minDue = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	maxDue = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// checkClaim checks a claim from one lane.
func (t *Table) checkClaim(req claimRequest) error {
	if req.owner == uuid.Nil {
		return invalid("owner token", "is the zero UUID: use uuid.New(), once for every claim")
	}
	return cmp.Or(t.checkLane(req.lanes[0].values), checkLease(req.lease), checkLimit(req.limit))
}

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

func checkLease(d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return invalid("lease", "is %v, it must be between %v and %v", d, MinLease, MaxLease)
	}
	return nil
}

func checkLimit(n int) error {
	if n < 1 || n > MaxBatch {
		return invalid("limit", "is %d, it must be between 1 and %d", n, MaxBatch)
	}
	return nil
}

func checkBatch(ids []uuid.UUID) error {
	if len(ids) > MaxBatch {
		return invalid("ids", "has %d of them, at most %d fit one call", len(ids), MaxBatch)
	}
	return nil
}

func checkDelay(d time.Duration) error {
	if d < 0 || d > maxDelay {
		return invalid("delay", "is %v, it must be between 0 and %v", d, maxDelay)
	}
	return nil
}

func checkDue(t time.Time) error {
	if !t.IsZero() && (t.Before(minDue) || t.After(maxDue)) {
		return invalid("due time", "is %s, it must be between %s and %s",
			t.Format(time.RFC3339), minDue.Format(time.DateOnly), maxDue.Format(time.DateOnly))
	}
	return nil
}

func checkText(field, s string) error { return refuse(field, postgres.Text(s)) }

func checkIdentifier(kind, name string) error { return refuse(kind, postgres.Identifier(name)) }

// message is a cause as an error; none for an empty one.
func message(cause string) error {
	if cause == "" {
		return nil
	}
	return errors.New(cause)
}
