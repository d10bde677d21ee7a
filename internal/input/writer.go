package input

import (
	"fmt"

	"github.com/txwork/txwork/workqueue"
)

// NameCheck is [Name] for a parameter of a [workqueue.Writer], and SizeCheck the check of one that may be NULL.
func NameCheck(param string, limit int) workqueue.Check {
	return workqueue.Check{
		Condition: fmt.Sprintf("octet_length(@%s) BETWEEN 1 AND %d", param, limit),
		Message:   fmt.Sprintf("%s must have 1 to %d bytes", param, limit),
	}
}

// SizeCheck is described with [NameCheck].
func SizeCheck(param string, limit int) workqueue.Check {
	return workqueue.Check{
		Condition: fmt.Sprintf("@%[1]s IS NULL OR octet_length(@%[1]s) <= %[2]d", param, limit),
		Message:   fmt.Sprintf("%s must have at most %d bytes", param, limit),
	}
}

// HeadersCheck bounds the [HeaderSize] of a writer's headers.
func HeadersCheck(limit int) workqueue.Check {
	return workqueue.Check{
		Condition: fmt.Sprintf("@headers IS NULL OR (SELECT coalesce(sum(octet_length(h.name) + "+
			"coalesce(octet_length(h.value), 0)), 0) FROM jsonb_each_text(@headers) AS h (name, value)) <= %d", limit),
		Message: fmt.Sprintf("headers must have at most %d bytes", limit),
	}
}
