package periodic

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// A trigger is an occurrence that the SQL function <table>_trigger has asked for, which knows neither templates nor how
// a domain writes them.
type trigger struct {
	ID uuid.UUID `json:"id"` // of the row to be written
	At time.Time `json:"at"` // by the database's clock
}

// triggers are what a schedule was triggered for and no scheduler has written, oldest first, as its row stores them.
type triggers []trigger

// maxTriggers bounds them, however often a schedule is triggered while no scheduler runs.
const maxTriggers = 1000

func readTriggers(stored string) (all triggers, err error) {
	if stored == "" {
		return nil, nil
	}
	if err = json.Unmarshal([]byte(stored), &all); err != nil {
		err = fmt.Errorf("txwork: what the schedule was triggered for does not decode: %w", err)
	}
	return all, err
}

// stored is what a row stores: nil for nothing.
func (all triggers) stored() (any, error) {
	if len(all) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// writeTriggers writes occurrences that SQL has asked for. The plan, and what is left of them, is for the next
// decision, which is due at once.
func (p *Plan) writeTriggers(ctx context.Context, tx workqueue.Tx, r row, attempt int) error {
	most := min(pieceOf(r, attempt), len(r.triggers))
	occurrences := make([]Occurrence, most)
	for i, t := range r.triggers[:most] {
		occurrences[i] = r.triggered(t.ID, t.At.Add(r.ahead))
	}
	if _, err := p.options.Insert(ctx, tx, occurrences); err != nil {
		return err
	}
	left, err := r.triggers[most:].stored()
	if err != nil {
		return err
	}
	if _, err := p.table.In(tx).Exec(ctx, p.statements.triggered, r.ID, left); err != nil {
		return err
	}
	return workqueue.Again(0)
}
