package timers

import (
	"fmt"
	"sync"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// How the SQL function timers_set writes the columns that are not parameters as they stand. The time has the name that
// it has in every such function; due_at follows from it.
var (
	writtenPayload = workqueue.Written{
		As:     "@payload",
		Params: []workqueue.Param{{Name: "payload", Type: "bytea", Default: "''"}},
	}
	writtenFireAt = workqueue.Written{
		As:     "@scheduled_at",
		Params: []workqueue.Param{{Name: "scheduled_at", Type: "timestamptz"}},
		Checks: []workqueue.Check{input.Given("scheduled_at", "Say when the timer is to fire.")},
	}
	writtenGeneration = workqueue.Written{As: "1"}
	unwritten         workqueue.Written
)

// writer is the SQL function timers_set, which takes what Set takes, for one timer. It is rendered where it is needed.
var writer = sync.OnceValue(func() workqueue.Writer {
	return workqueue.Writer{
		Name: "set",
		Checks: []workqueue.Check{
			{
				Parameter: "key",
				Condition: fmt.Sprintf("NOT starts_with(@key, '%s')", ReservedPrefix),
				Message:   "must not begin with " + ReservedPrefix + ", as the occurrences of schedules do",
				Hint:      "Take another key.",
			},
		},
		Change: setOne() + `
        INTO id, duplicate;
        IF duplicate THEN
            RETURN;
        END IF;
        duplicate := false;`,
		ChangeMany: setMany(),
	}
})
