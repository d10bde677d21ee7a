package keyed

import (
	"fmt"

	"github.com/txwork/txwork/workqueue"
)

// How the SQL function of a table writes [Columns]: from the fields of [Ordered] and [Limited], as [Stored] does, and
// with the same bounds. The table's triggers check those of a direct INSERT.
var (
	byRule = written{&writtenKey, &writtenLimit, &writtenPolicy, &writtenRate, &writtenBurst, nil}

	writtenKey = workqueue.Written{
		As: "coalesce(@ordered_key, @limited_key)",
		Params: []workqueue.Param{
			{Name: "ordered_key", Type: "text", Default: "NULL"},
			onFailure,
			{Name: "limited_key", Type: "text", Default: "NULL"},
			{Name: "max_running", Type: "integer", Default: "NULL"},
			{Name: "rate", Type: "double precision", Default: "NULL"},
			{Name: "burst", Type: "integer", Default: "NULL"},
		},
		Checks: []workqueue.Check{
			isPolicy,
			check("limited_key", "@ordered_key IS NULL OR @limited_key IS NULL", "must be NULL beside an ordered_key",
				"Give one of the two."),
			sized("ordered_key", "NULL is a row whose order does not matter."),
			sized("limited_key", "NULL is a row without a limit."),
			check("limited_key", "@limited_key IS NOT NULL OR num_nonnulls(@max_running, @rate, @burst) = 0",
				"must be given with max_running, rate and burst", "Give a limited_key, or none of the three."),
			check("limited_key", "@limited_key IS NULL OR num_nonnulls(@max_running, @rate) > 0",
				"needs max_running or rate", "Give one or both of them."),
			check("max_running", "@max_running IS NULL OR @max_running >= 1", "must be at least 1",
				"To stop the rows of a key, set them to a later time."),
			check("rate", fmt.Sprintf("@rate IS NULL OR @rate BETWEEN %v AND %v", MinRate, MaxRate),
				fmt.Sprintf("must be between %v and %v", MinRate, MaxRate), "Give starts a second; NULL is no limit."),
			check("burst", "@burst IS NULL OR @rate IS NOT NULL", "needs a rate", "Give a rate, or no burst."),
			check("burst", "@burst IS NULL OR @burst >= 1", "must be at least 1", "NULL is the starts of one second."),
		},
		Lock: lockOf("@ordered_key"), MaxLocks: view{}.MaxTurns(),
	}
	writtenLimit = workqueue.Written{As: fmt.Sprintf("CASE WHEN @ordered_key IS NOT NULL THEN 0 "+
		"WHEN @limited_key IS NOT NULL THEN coalesce(@max_running, %d) END", unlimited)}
	writtenPolicy = workqueue.Written{As: "CASE WHEN @ordered_key IS NOT NULL THEN " + storedPolicy +
		" WHEN @limited_key IS NOT NULL THEN 0 END"}
	writtenRate  = workqueue.Written{As: "@rate"}
	writtenBurst = workqueue.Written{As: fmt.Sprintf("CASE WHEN @rate IS NOT NULL THEN coalesce(@burst, "+
		"greatest(1, ceil(least(@rate, %d)))::integer) END", unlimited)}
)

var (
	onFailure = workqueue.Param{Name: "on_failure", Type: "text", Default: "'" + Block.String() + "'"}

	isPolicy = workqueue.Check{
		Parameter: "on_failure",
		Condition: fmt.Sprintf("@on_failure IN ('%v', '%v', '%v')", Block, Park, Skip),
		Message:   fmt.Sprintf("must be %v, %v or %v", Block, Park, Skip),
		Hint:      fmt.Sprintf("Leave it out for %v.", Block),
	}

	storedPolicy = fmt.Sprintf("CASE @on_failure WHEN '%v' THEN %d WHEN '%v' THEN %d WHEN '%v' THEN %d END",
		Block, Block.stored(), Park, Park.stored(), Skip, Skip.stored())
)

func check(parameter, condition, message, hint string) workqueue.Check {
	return workqueue.Check{Parameter: parameter, Condition: condition, Message: message, Hint: hint}
}

func sized(parameter, hint string) workqueue.Check {
	return check(parameter, fmt.Sprintf("@%[1]s IS NULL OR octet_length(@%[1]s) BETWEEN 1 AND %[2]d", parameter, MaxKey),
		fmt.Sprintf("must have 1 to %d bytes", MaxKey), hint)
}

// lockOf is the lock that [sqltext.LockKeys] takes of several keys, or NULL for a row without an ordered key.
func lockOf(key string) string {
	return fmt.Sprintf("CASE WHEN (%[1]s) IS NOT NULL THEN %[2]s END", key, writerLock("@table_name", "("+key+")"))
}

// OrderedBy returns [Columns] for a domain with one rule: its SQL function orders rows by the value of an expression,
// which may name parameters of the function as @name, unless it is NULL or the parameter ordered is false. They have
// the same names and types, so the rest of the package makes no difference.
func OrderedBy(key string) func(*workqueue.Columns, Rule) {
	key = "CASE WHEN @ordered THEN " + key + " END"
	w := &written{
		key: &workqueue.Written{
			As:     key,
			Params: []workqueue.Param{{Name: "ordered", Type: "boolean", Default: "true"}, onFailure},
			Checks: []workqueue.Check{isPolicy, check("ordered", "@ordered IS NOT NULL", "must be true or false",
				"Leave it out for true.")},
			Lock: lockOf(key), MaxLocks: view{}.MaxTurns(),
		},
		limit:  &workqueue.Written{As: "CASE WHEN " + key + " IS NOT NULL THEN 0 END"},
		policy: &workqueue.Written{As: "CASE WHEN " + key + " IS NOT NULL THEN " + storedPolicy + " END"},
		rate:   &workqueue.Written{}, burst: &workqueue.Written{}, seq: &workqueue.Written{},
	}
	return func(c *workqueue.Columns, r Rule) { list(c, r, w) }
}
