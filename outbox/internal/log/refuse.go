package log

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

// The arguments that functions refuse. Each parameter is given as $1, $2, …

// RefusesMessage refuses what an outbox refuses.
func (view) RefusesMessage() string {
	return strings.Join([]string{
		sqltext.Sized("$1", "topic", MaxTopic, "Name what the message is about."),
		sqltext.RefuseUnless(fmt.Sprintf("octet_length($2) <= %d", MaxPayload), "payload",
			fmt.Sprintf("must not be NULL, and have at most %d bytes", MaxPayload),
			"Keep larger content elsewhere, and its address in the message."),
		sqltext.RefuseUnless(fmt.Sprintf("octet_length(coalesce($3, '')) <= %d", MaxKey), "key",
			fmt.Sprintf("must have at most %d bytes", MaxKey), "NULL is no key."),
		sqltext.Given("$5", "id", "Leave it out for a new one."),
		sqltext.RefuseUnless(fmt.Sprintf("octet_length(coalesce($6, '')) <= %d", MaxDedupKey), "dedup_key",
			fmt.Sprintf("must have at most %d bytes", MaxDedupKey), "NULL is none."),
		sqltext.RefuseUnless("$7 IS NULL OR $7 BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00'",
			"scheduled_at", "must be between 1970 and 9999", "NULL and a time in the past mean now."),
	}, "\n    ")
}

// RefusesName refuses the name of a new subscription.
func (view) RefusesName(param string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("%s ~ '^[a-z0-9_]{1,%d}$'", param, maxName), "name",
		fmt.Sprintf("must have 1 to %d characters a-z, 0-9 and _", maxName), "Choose another name.")
}

// RefusesTopics refuses patterns that fit no topic, or that nobody can have meant.
func (view) RefusesTopics(param string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("%[1]s IS NULL OR array_ndims(%[1]s) = 1 AND cardinality(%[1]s) <= 100\n"+
		"        AND array_position(%[1]s, NULL) IS NULL AND array_position(%[1]s, '') IS NULL", param), "topics",
		"must have 1 to 100 topics, of which none is NULL or empty", topicsHint) + "\n    " +
		sqltext.RefuseUnless(fmt.Sprintf("%[1]s IS NULL OR NOT EXISTS (\n"+
			"        SELECT FROM unnest(%[1]s) AS t WHERE strpos(left(t, -1), '*') > 0)", param), "topics",
			"must have a * at the end of a topic only", topicsHint)
}

// topicsHint says what topics a subscription can have. One with a * of its own is had by what is before it.
const topicsHint = "Give topics, or the beginning of topics with a * at its end: order.* has order.new. A * alone is all."

// RefusesHeaders refuses what no message has as its headers.
func (view) RefusesHeaders(param string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("%[1]s IS NULL OR jsonb_typeof(%[1]s) = 'object'", param), "headers",
		"must be an object", "Give the headers that messages must have.")
}

// RefusesStart refuses NULL, and what has not come.
func (view) RefusesStart(param string) string {
	return sqltext.Given(param, "start", "infinity is now, and -infinity the beginning.") + "\n    " +
		sqltext.RefuseUnless(fmt.Sprintf("NOT isfinite(%[1]s) OR %[1]s < clock_timestamp() + interval '%[2]s'", param,
			clockSkew), "start", "is in the future", "Give a time that has been. The latest start is infinity.")
}

// RefusesLanes refuses a number of lanes.
func (view) RefusesLanes(param string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("%s BETWEEN 1 AND %d", param, maxLanes), "lanes", lanesRule, lanesHint)
}

// RefusesLanesUnlessNull is the same for a number that may be left out.
func (view) RefusesLanesUnlessNull(param string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("%[1]s IS NULL OR %[1]s BETWEEN 1 AND %[2]d", param, maxLanes), "lanes",
		lanesRule, lanesHint)
}

const lanesHint = "Give as many as consumers are to read it at the same time."

var lanesRule = fmt.Sprintf("must be between 1 and %d", maxLanes)

// RefusesNoToken refuses a call without an owner.
func (view) RefusesNoToken(param string) string {
	return sqltext.Given(param, "owner_token", "Use a fresh token for each batch, and keep it until the batch ends.")
}

// RefusesUsedToken refuses a claim with the token of a batch that has ended: its settle could not be repeated.
func (view) RefusesUsedToken(isUsed string) string {
	return sqltext.RefuseUnless("NOT ("+isUsed+")", "owner_token", "was used for a batch that has ended",
		"Use a fresh token for each batch.")
}

// RefusesLease refuses a lease that no claim of the core has.
func (view) RefusesLease(param string) string {
	return sqltext.RefuseUnless(leased(param), "lease", leaseRule,
		"Take a lease that a dead consumer may hold the lane for, and extend it meanwhile.")
}

// RefusesLeaseUnlessNull is the same for a lease that may be left out.
func (view) RefusesLeaseUnlessNull(param string) string {
	return sqltext.RefuseUnless(param+" IS NULL OR "+leased(param), "lease", leaseRule, "NULL leaves it as it is.")
}

var leaseRule = fmt.Sprintf("must be between %d and %d seconds", workqueue.MinLease/time.Second,
	workqueue.MaxLease/time.Second)

func leased(param string) string {
	return fmt.Sprintf("%s BETWEEN interval '%d seconds' AND interval '%d seconds'", param,
		workqueue.MinLease/time.Second, workqueue.MaxLease/time.Second)
}

// RefusesCount refuses the size of a page.
func (view) RefusesCount(param string) string { return sqltext.Bounded(param, "n", MaxPage) }

// RefusesBytes refuses the bytes of a page.
func (view) RefusesBytes(param string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("%s IS NULL OR %[1]s > 0", param), "bytes", "must be positive, or NULL",
		"Take how many bytes of payloads you want to have in hand. A page has one message at least.")
}

// RefusesRows refuses the bound of a sweep.
func (view) RefusesRows(param string) string { return sqltext.Bounded(param, "max_rows", MaxPage) }

// RefusesIDs refuses a list of ids.
func (view) RefusesIDs(param string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("cardinality(%s) <= %d", param, MaxPage), "ids",
		fmt.Sprintf("must be an array of at most %d ids", MaxPage), "Call again for more.")
}

// RefusesMost refuses how many messages are looked at.
func (view) RefusesMost(param string) string { return sqltext.Bounded(param, "most", 1_000_000) }

// RefusesNoEnd refuses NULL, and RefusesBehind what is not in the page.
func (view) RefusesNoEnd(param string) string {
	return sqltext.Given(param, "upto", "Give the number up to which all messages are handled.")
}
func (view) RefusesBehind(isInPage string) string {
	return sqltext.RefuseUnless(isInPage, "upto", "is behind the page in hand",
		"Settle up to the number that the end of the fetch has, or to that of one of its rows.")
}

// RefusesAhead refuses a list of numbers that is too long.
func (view) RefusesAhead(param string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("cardinality(%s) <= %d", param, MaxPage), "ahead",
		fmt.Sprintf("must be an array of at most %d numbers", MaxPage), "Settle the beginning of the page first.")
}

// RefusesFailures refuses a list of failures that is not one, and RefusesStrangers one that names other messages.
func (view) RefusesFailures(param string) string {
	return sqltext.RefuseUnless("jsonb_typeof("+param+") = 'array'", "failed", "must be an array of objects",
		"Name the messages that failed by seq, with error and delay.") + "\n    " +
		sqltext.RefuseUnless(fmt.Sprintf(`NOT EXISTS (
        SELECT FROM jsonb_array_elements(%s) AS e (value)
        WHERE CASE WHEN jsonb_typeof(e.value) = 'object' THEN
            (e.value ->> 'seq' ~ '^[0-9]{1,18}$') IS NOT TRUE
            OR (coalesce(e.value ->> 'delay', '0') ~ '^[0-9]{1,%d}([.][0-9]{1,9})?$') IS NOT TRUE
            OR coalesce(e.value ->> 'outcome', 'retry') NOT IN ('retry', 'snooze', 'fail')
            OR e.value - '{seq,error,delay,outcome}'::text[] <> '{}'
            ELSE true END)`, param, maxDelayDigits), "failed",
			"must have objects with seq, error, delay and outcome only, where delay is a number of seconds and "+
				"outcome retry, snooze or fail",
			"Name each message that failed once.")
}
func (view) RefusesStrangers(isKnown string) string {
	return sqltext.RefuseUnless(isKnown, "failed",
		"must name messages of the page in hand, each once, none behind upto",
		"Name a message that failed in the settle that passes it.")
}

// maxDelayDigits are those of the whole seconds of a delay: three years.
const maxDelayDigits = 8

// RefusesOlderThan refuses an age, unless there is a time in its place, which has been.
func (view) RefusesOlderThan(age, before string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("%s >= interval '0' OR %s IS NOT NULL", age, before), "older_than",
		"must not be NULL or negative", "Give the age beyond which messages may be lost, or before, a time.") + "\n    " +
		sqltext.RefuseUnless(fmt.Sprintf("%s IS NULL OR %s IS NULL", age, before), "before",
			"is given beside older_than", "Give one of them.") + "\n    " +
		sqltext.RefuseUnless(fmt.Sprintf("%[1]s IS NULL OR %[1]s < clock_timestamp() + interval '%[2]s'", before,
			clockSkew), "before", "is in the future", "Give a time that has been.")
}

// RefusesRetention refuses what a subscription cannot be kept within. NULL and 0 are no bound. Ticks are kept for so
// long, and a cut goes to one of them.
func (view) RefusesRetention(age, messages string) string {
	most := strconv.Itoa(postgres.LogMaxMessages)
	return sqltext.RefuseUnless(fmt.Sprintf("%[1]s IS NULL OR %[1]s BETWEEN interval '0' AND interval '%[2]s'", age,
		retention), "max_age", "must be between 0 and "+retention, "0 is none: then all is kept.") + "\n    " +
		sqltext.RefuseUnless(fmt.Sprintf("%[1]s IS NULL OR %[1]s BETWEEN 0 AND %[2]s", messages, most), "max_messages",
			"must be between 0 and "+most, "0 is none: then all is kept.")
}

// RefusesAge refuses a retention.
func (view) RefusesAge(param string) string {
	return sqltext.RefuseUnless(param+" >= interval '0'", "retention", "must not be negative",
		"Give how long messages are kept that all have passed.")
}
