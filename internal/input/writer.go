package input

import (
	"fmt"

	"github.com/txwork/txwork/workqueue"
)

// HeadersCheck bounds the [HeaderSize] of a writer's headers.
func HeadersCheck(limit int) workqueue.Check {
	return workqueue.Check{
		Parameter: "headers",
		If:        "@headers IS NOT NULL",
		Condition: fmt.Sprintf("(SELECT coalesce(sum(octet_length(h.name) + "+
			"coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text(@headers) AS h (name, value)) <= %d", limit),
		Message: fmt.Sprintf("must have at most %d bytes", limit),
		Hint:    "Put what is larger into the payload.",
	}
}

// Given refuses NULL as a writer's parameter.
func Given(name, hint string) workqueue.Check {
	return workqueue.Check{Parameter: name, Condition: "@" + name + " IS NOT NULL", Message: "must not be NULL",
		Hint: hint}
}
