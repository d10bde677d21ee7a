package jobs

import (
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// writer returns the SQL function jobs_enqueue, which takes what Enqueue takes. The settings of kinds are those of
// programs, so a caller gives those that are to apply.
func writer() workqueue.Writer {
	return workqueue.Writer{
		Checks: writerChecks,
		Calls:  []string{"unique_hash"},
		Params: []workqueue.Param{
			{Name: "unique_fields", Type: "jsonb", Default: "NULL"},
			{Name: "unique_until", Type: "text", Default: "'end'"},
			{Name: "on_conflict", Type: "text", Default: "'keep'"},
		},
		Begin: writerBegin(),
		Alone: "num_nonnulls(@unique_key, @unique_fields) > 0 OR @unique_until <> 'end' OR @on_conflict <> 'keep' " +
			"OR cardinality(@unique_while) > 0",
		Found: "            IF @on_conflict = 'reject' THEN\n" +
			"                RAISE EXCEPTION USING ERRCODE = 'unique_violation', COLUMN = 'unique_key',\n" +
			"                    MESSAGE = format('unique_key is held by job %s', @id),\n" +
			"                    HINT = 'Roll back, or use another on_conflict.';\n" +
			"            ELSIF @on_conflict = 'replace' THEN\n" + replaceOne() + "\n" +
			"                INTO replaced;\n" +
			"                replaced := FOUND;\n" +
			"            END IF;",
		Results: []workqueue.Param{{Name: "replaced", Type: "boolean"}},
	}
}

// batchStarter is the SQL function jobs_start_batch, which takes what StartBatch takes. The headers are those of
// batchJobs and continuations.
var batchStarter = join.Starter{
	Name: "start_batch", Steps: "jobs", Step: "job",
	Headers: "jsonb_build_object('" + batchHeader + "', $7::text) || CASE WHEN s.ord > n THEN " +
		"jsonb_build_object('" + afterHeader + "', n::text) ELSE '{}' END",
}

var writerChecks = []workqueue.Check{
	{
		Parameter: "unique_key",
		Condition: fmt.Sprintf("@unique_key IS NULL OR octet_length(@unique_key) BETWEEN 1 AND %d", MaxKey),
		Message:   fmt.Sprintf("must have 1 to %d bytes", MaxKey),
		Hint:      "NULL is a job that is not unique.",
	},
	{
		Parameter: "kind",
		Condition: "num_nonnulls(@unique_key, @unique_fields) = 0 OR strpos(@kind, " + sqlKindEnd + ") = 0",
		Message:   "must not have the character U+001F, which ends the kind in the key of a unique job",
		Hint:      "Take another kind.",
	},
	{
		Parameter: "unique_while",
		Condition: "@unique_while <@ ARRAY['done', 'failed']",
		Message:   "may have done and failed",
		Hint:      "An empty array has the key free once the job has ended.",
	},
}

// writerBegin are the statements that put the unique key in the form of [Unique].text, and its rule in that of inTurn.
// A job without a key pays for two conditions.
func writerBegin() string {
	const oneOf = "Give one of them, or leave it out."
	return strings.Join([]string{
		"replaced := false;",
		"IF num_nonnulls(@unique_key, @unique_fields) = 0 THEN",
		sqltext.RefuseUnless("@unique_until = 'end' AND @on_conflict = 'keep' AND cardinality(@unique_while) = 0",
			"unique_key", "or unique_fields must be given beside unique_while, unique_until and on_conflict",
			"Give one, or leave these out."),
		"ELSE",
		sqltext.RefuseUnless("num_nonnulls(@unique_key, @unique_fields) = 1", "unique_fields",
			"must not be given beside unique_key", "Give one of them."),
		sqltext.RefuseUnless("@unique_until IN ('end', 'start', 'start_in_turn')", "unique_until",
			"must be end, start or start_in_turn", oneOf),
		sqltext.RefuseUnless("@on_conflict IN ('keep', 'replace', 'reject')", "on_conflict",
			"must be keep, replace or reject", oneOf),
		sqltext.RefuseUnless("@unique_until = 'end' OR cardinality(@unique_while) = 0", "unique_while",
			"must be empty beside unique_until, by which the key is free before the job ends", "Leave one of them out."),
		sqltext.RefuseUnless("@unique_until <> 'start_in_turn' OR num_nonnulls(@ordered_key, @limited_key) = 0",
			"unique_until", "must not be start_in_turn for a job with ordered_key or limited_key, since it sets these",
			"Use start for a job with a key of its own."),
		"    @unique_key := CASE WHEN @unique_key IS NULL THEN concat('f:', @kind, " + sqlKindEnd +
			", @unique_hash(@unique_fields))",
		"        ELSE concat('u:', @kind, " + sqlKindEnd + ", @unique_key) END;",
		"    IF @unique_until = 'start_in_turn' THEN",
		"        @ordered_key := '" + inTurnPrefix + "' || translate(encode(sha256(convert_to(@unique_key, 'UTF8')), " +
			"'base64'), '+/=', '-_');",
		"        @on_failure := 'skip';",
		"    END IF;",
		"END IF;",
	}, "\n    ")
}

// replaceOne is the statement of Replace as the function executes it, for one job.
func replaceOne() string {
	values := []string{"id", "new_unique_key", "new_args", "new_priority", "new_due_at", "new_headers",
		"new_max_attempts", "", "new_unique_states", "new_queue", "", "new_concurrency_key", "new_key_limit",
		"new_key_policy", "new_key_rate", "new_key_burst"}
	for i, value := range values {
		if value == "" {
			values[i] = "ARRAY[NULL]"
		} else {
			values[i] = "ARRAY[@" + value + "]"
		}
	}
	return sqltext.Inline(statementTemplates, "replace", map[string]any{"Table": "@table", "Announce": "@announce",
		"MaxAttempts": "@default_attempts", "One": true}, values...)
}

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
		As:     "@unique_key",
		Params: []workqueue.Param{{Name: "unique_key", Type: "text", Default: "NULL"}},
	}
	writtenUniqueStates = workqueue.Written{
		As: fmt.Sprintf("CASE WHEN @unique_key IS NOT NULL THEN nullif(CASE WHEN 'done' = ANY (@unique_while) THEN %d "+
			"ELSE 0 END + CASE WHEN 'failed' = ANY (@unique_while) THEN %d ELSE 0 END + "+
			"CASE WHEN @unique_until = 'end' THEN 0 ELSE %d END, 0) END", WhileDone, WhileFailed, heldUntilStart),
		Params: []workqueue.Param{{Name: "unique_while", Type: "text[]", Default: "'{}'"}},
	}
	unwritten workqueue.Written
)
