package jobs

import (
	"fmt"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// writer is the SQL function jobs_enqueue, which takes what Enqueue takes. The settings of kinds are those of programs,
// so a caller gives those that are to apply.
var writer = workqueue.Writer{Checks: []workqueue.Check{
	{
		Parameter: "unique_key",
		Condition: fmt.Sprintf("@unique_key IS NULL OR octet_length(@unique_key) BETWEEN 1 AND %d", MaxKey),
		Message:   fmt.Sprintf("must have 1 to %d bytes", MaxKey),
		Hint:      "NULL is a job that is not unique.",
	},
	{
		Parameter: "kind",
		Condition: "@unique_key IS NULL OR strpos(@kind, " + sqlKindEnd + ") = 0",
		Message:   "must not have the character U+001F, which ends the kind in the key of a unique job",
		Hint:      "Take another kind.",
	},
	{
		Parameter: "unique_while",
		Condition: "@unique_while <@ ARRAY['done', 'failed']",
		Message:   "may have done and failed",
		Hint:      "An empty array has the key free once the job has ended.",
	},
	input.HeadersCheck(MaxHeaders),
}}

// How jobs_enqueue writes the columns that are not parameters as they stand. The unique key is that of [Unique].text.
var (
	writtenQueue = workqueue.Written{
		As:     "@queue",
		Params: []workqueue.Param{{Name: "queue", Type: "text", Default: "'" + DefaultQueue + "'"}},
	}
	writtenPriority = workqueue.Written{
		As:     "@priority::smallint",
		Params: []workqueue.Param{{Name: "priority", Type: "integer", Default: fmt.Sprint(int(Normal))}},
	}
	writtenUniqueKey = workqueue.Written{
		As:     "concat('u:', @kind, " + sqlKindEnd + ") || @unique_key",
		Params: []workqueue.Param{{Name: "unique_key", Type: "text", Default: "NULL"}},
	}
	writtenUniqueStates = workqueue.Written{
		As: fmt.Sprintf("CASE WHEN @unique_key IS NOT NULL THEN nullif(CASE WHEN 'done' = ANY (@unique_while) THEN %d "+
			"ELSE 0 END + CASE WHEN 'failed' = ANY (@unique_while) THEN %d ELSE 0 END, 0) END", WhileDone, WhileFailed),
		Params: []workqueue.Param{{Name: "unique_while", Type: "text[]", Default: "'{}'"}},
	}
	unwritten workqueue.Written
)
