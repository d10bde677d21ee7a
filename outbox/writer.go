package outbox

import "github.com/txwork/txwork/workqueue"

// optionalText is how a parameter is written of which an empty text means none.
func optionalText(name string) *workqueue.Written {
	return &workqueue.Written{
		As:     "nullif(@" + name + ", '')",
		Params: []workqueue.Param{{Name: name, Type: "text", Default: "NULL"}},
	}
}
