package inbox

import (
	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// How the SQL function inbox_receive writes the columns that are not parameters as they stand. The hash is that of
// [hashOf].
var (
	writtenTopic = workqueue.Written{
		As:     sqlTopic,
		Params: []workqueue.Param{{Name: "topic", Type: "text", Default: "NULL"}},
	}
	writtenPayload = workqueue.Written{
		As:     "@payload",
		Params: []workqueue.Param{{Name: "payload", Type: "bytea"}},
		Checks: []workqueue.Check{input.Given("payload", "An empty payload is ''.")},
	}
	writtenHash = workqueue.Written{
		As:     sqlHash,
		Params: []workqueue.Param{{Name: "body_hash", Type: "bytea", Default: "NULL"}},
	}
)

const (
	sqlTopic = "coalesce(nullif(@topic, ''), @source)"
	sqlHash  = "coalesce(@body_hash, CASE WHEN " + sqlTopic + " = @source THEN sha256(@payload) " +
		"ELSE sha256(convert_to(@topic, 'UTF8') || sha256(@payload)) END)"
)

// writer is the SQL function inbox_receive, which takes what Receive takes, for one message.
var writer = workqueue.Writer{
	Name:    "receive",
	Payload: "payload",
	Begin:   "hash_mismatch := false;",
	Results: []workqueue.Param{{Name: "hash_mismatch", Type: "boolean"}},
	Found: "            SELECT coalesce(t.body_hash <> (" + sqlHash + "), false) INTO hash_mismatch\n" +
		"            FROM @table AS t WHERE t.id = @id;",
}
