package periodic

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/txwork/txwork/schedule"
)

// A debt is occurrences that were due under a definition of a schedule when the definition was changed. They are
// written by the next decision, which judges them by the misfire policy under which they were due.
type debt struct {
	Misfire string      `json:"misfire"`
	Cap     int         `json:"cap"`
	Grace   int64       `json:"grace"` // microseconds
	Due     []time.Time `json:"due"`   // nominal, oldest first
}

// debts are what a schedule owes from earlier definitions, oldest first, as its row stores them.
type debts []debt

// maxDebts bounds the occurrences that a schedule owes, however often it is changed while no scheduler runs. The oldest
// ones are dropped.
const maxDebts = schedule.MaxFire

func readDebts(stored string) (all debts, err error) {
	if stored == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(stored), &all); err != nil {
		return nil, fmt.Errorf("txwork: what the schedule owes does not decode: %w", err)
	}
	for _, one := range all {
		if _, err := schedule.ParseMisfire(one.Misfire); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// stored is what a row stores: nil for nothing.
func (all debts) stored() (any, error) {
	if all.count() == 0 {
		return nil, nil
	}
	text, err := json.Marshal(all)
	return string(text), err
}

func (all debts) count() (n int) {
	for _, one := range all {
		n += len(one.Due)
	}
	return n
}

// with adds occurrences that are due, and drops what their rule no longer fires. It returns how many it dropped.
func (all debts) with(r schedule.Rule, due []time.Time, now time.Time) (more debts, dropped int) {
	more = slices.Clone(all)
	last := len(more) - 1
	if add := debtOf(r, due); last >= 0 && more[last].rule() == add.rule() {
		more[last].Due = slices.Concat(more[last].Due, due)
	} else {
		more = append(more, add)
	}
	before := more.count()
	for i := range more {
		more[i].Due, _ = more[i].rule().Choose(more[i].Due, now)
	}
	for excess := more.count() - maxDebts; excess > 0; excess = more.count() - maxDebts {
		if n := len(more[0].Due); n <= excess {
			more = more[1:]
		} else {
			more[0].Due = more[0].Due[excess:]
		}
	}
	more = slices.DeleteFunc(more, func(d debt) bool { return len(d.Due) == 0 })
	return more, before - more.count()
}

// judged returns the occurrences to fire, and how many others are skipped.
func (all debts) judged(now time.Time) (fire []time.Time, skipped int) {
	for _, one := range all {
		due, missed := one.rule().Choose(one.Due, now)
		fire, skipped = append(fire, due...), skipped+missed
	}
	return fire, skipped
}

// debtOf is what is owed by a rule.
func debtOf(r schedule.Rule, due []time.Time) debt {
	return debt{Misfire: r.Misfire.String(), Cap: r.Cap, Grace: r.Grace.Microseconds(), Due: due}
}

// settled is what has been judged and is only left for another transaction, so that no rule drops it.
func settled(due []time.Time) debts {
	return debts{debtOf(schedule.Rule{Misfire: schedule.MisfireAll, Cap: schedule.MaxFire}, due)}
}

// rule is the misfire policy of a debt. readDebts has checked its name.
func (d debt) rule() schedule.Rule {
	r := schedule.Rule{Cap: d.Cap, Grace: time.Duration(d.Grace) * time.Microsecond}
	r.Misfire, _ = schedule.ParseMisfire(d.Misfire)
	return r
}
