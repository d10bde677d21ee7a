package outbox

import (
	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// writer is the SQL function outbox_enqueue, which takes what Enqueue takes.
var writer = workqueue.Writer{Checks: []workqueue.Check{input.HeadersCheck(MaxHeaders)}}

// optionalText is how a parameter is written of which an empty text means none.
func optionalText(name string) *workqueue.Written {
	return &workqueue.Written{
		As:     "nullif(@" + name + ", '')",
		Params: []workqueue.Param{{Name: name, Type: "text", Default: "NULL"}},
	}
}
