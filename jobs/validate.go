package jobs

import (
	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue/validate"
)

func checkOptionalName(field, name string, limit int) error {
	if name == "" {
		return nil
	}
	return input.Name(field, name, limit)
}

func checkPriority(p Priority) error {
	if p < 0 || p > Low {
		return validate.Errorf("Priority", "is %d, want High, Normal or Low", p)
	}
	return nil
}

// checkWhen refuses delays out of bounds, and a delay together with ScheduledAt.
func (i Insert) checkWhen() error {
	switch {
	case i.Delay < 0 || i.Delay > MaxDelay:
		return validate.Errorf("Delay", "is %v, it must be between 0 and %v", i.Delay, MaxDelay)
	case i.Delay > 0 && !i.ScheduledAt.IsZero():
		return validate.Errorf("Delay", "is set, and so is ScheduledAt: set one of them")
	}
	return nil
}

// checkID refuses an id that an earlier job of the same call has.
func checkID(seen map[uuid.UUID]int, i int, id uuid.UUID) error {
	if first, taken := seen[id]; taken {
		return validate.Errorf("ID", "%s is that of job %d, too", id, first+1)
	}
	seen[id] = i
	return nil
}
