package log

import (
	"cmp"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// The tables and functions are in sql/, one operation per file.
//
//go:embed sql/*.sql
var sqlFiles embed.FS

var sqlTemplates = sqltext.Parse(sqlFiles, "sql/*.sql")

// files are in an order in which each needs only those before it.
var files = []string{"table", "turn", "append", "due", "tick", "subscribe", "fetch", "settle", "unavailable",
	"thin", "trim", "rebase", "move", "retain", "replay", "cut", "change", "pause", "unsubscribe", "lag", "take_over",
	"give_back"}

// DDL renders the migration of a log in a schema: the statements that create its tables and functions, and those that
// drop them. The schema has to exist.
func DDL(schema string) (up, down string, err error) {
	spec := ParkedSpec(schema)
	for _, part := range []func(workqueue.Spec) (string, string, error){workqueue.Spec.DDL, keyed.DDL} {
		partUp, partDown, err := part(spec)
		if err != nil {
			return "", "", err
		}
		up, down = up+partUp+"\n", partDown+"\n"+down
	}
	v := view{schema: cmp.Or(schema, workqueue.DefaultSchema)}
	parts := make([]string, len(files))
	for i, file := range files {
		parts[i] = sqltext.Execute(sqlTemplates, file, v)
	}
	return up + strings.Join(parts, "\n\n") + "\n", sqltext.Execute(sqlTemplates, "down", v) + "\n" + down, nil
}

// name is the table of messages. All other names begin with it.
const name = "outbox_log"

// MaxPage is how many messages a page has at most.
const MaxPage = 10_000

const (
	maxName  = 48 // characters of a subscription's name
	maxLanes = postgres.LogLanes
	maxError = 10_000 // characters of an error that a settle records

	// Slots are a ring of days: a week of messages, the day in which a transaction of yesterday may still write, and
	// none too many, since each statement that reads asks the index of every slot.
	slots = 8
	slot  = 24 * time.Hour

	// For so long messages are kept that all have passed, for those who go back, and ticks.
	retention = "7 days" // postgres.LogMaxAge

	// A batch is what some ticks have seen together: so much that a page can be full, and not more than can be read
	// again for each page, since numbers are not in the order of the index.
	batchSize = 5000
	maxTicks  = 200

	// A tick divides so many new messages into batches, in a quarter of a microsecond each. More would take so long
	// that whoever ticks may give up, again and again: they are one batch.
	maxDivided = 4_000_000

	maxPromise  = "1 second"
	maxNews     = 100
	maxKeys     = 10_000 // dedup keys that are freed in one transaction
	maxDue      = 1000   // due messages that one tick appends
	maxDueBytes = 16 << 20
	maxCounted  = 100_000 // messages among which a removal counts those that are lost
	maxVanished = 10

	// What one call of the retention looks at and passes over, of each subscription, and the ticks that are thinned
	// out.
	maxOutlived = 10_000
	maxPassed   = 1_000_000
	maxThinned  = 10_000

	clockSkew = "1 minute" // by which the clock of who names a start may be ahead
)

// A view is the data of the templates.
type view struct {
	schema string
	Most   string // see the template batch
}

// AtMost is the view of a template that reads at most so many messages.
func (v view) AtMost(param string) view {
	v.Most = param
	return v
}

// Log is the table of messages, and Named an object whose name begins with its name; both are quoted.
func (v view) Log() string                { return fmt.Sprintf("%q.%q", v.schema, name) }
func (v view) Named(suffix string) string { return fmt.Sprintf("%q.%q", v.schema, name+"_"+suffix) }

// Name is Log without quotes, for messages.
func (v view) Name() string { return v.schema + "." + name }

// Own is Named without the schema, as in the definition of an index.
func (view) Own(suffix string) string { return fmt.Sprintf("%q", name+"_"+suffix) }

// Parked is the table of parked messages.
func (v view) Parked() string { return v.Named("parked") }

// EachSlot numbers the slots, and Slot is the partition of one.
func (view) EachSlot() []int {
	all := make([]int, slots)
	for i := range all {
		all[i] = i
	}
	return all
}
func (v view) Slot(n int) string  { return v.Named(fmt.Sprint(n)) }
func (view) Slots() int           { return slots }
func (view) SlotSeconds() float64 { return slot.Seconds() }

func (view) Version() int      { return version }
func (view) NewID() string     { return sqltext.NewID }
func (view) Retention() string { return retention }

func (view) BatchSize() int { return batchSize }

// QualifiedTurns is how many keys one transaction may write, for a function without a search_path of its own, which
// would be set for each statement.
func (view) QualifiedTurns() string {
	operators := strings.NewReplacer(" * ", " OPERATOR(pg_catalog.*) ", " + ", " OPERATOR(pg_catalog.+) ",
		" / ", " OPERATOR(pg_catalog./) ")
	return operators.Replace(sqltext.Qualified(sqltext.MaxTurns))
}

// MaxTurns is QualifiedTurns for other functions.
func (view) MaxTurns() string { return sqltext.MaxTurns }

// MaxKeys is how many dedup keys trim frees in a transaction, MaxDue and MaxDueBytes how many messages that are due a
// tick appends, and MaxVanished how often in succession the holder of a dedup key may vanish.
func (view) MaxKeys() int     { return maxKeys }
func (view) MaxDue() int      { return maxDue }
func (view) MaxDueBytes() int { return maxDueBytes }

// MaxCounted is among how many messages a removal counts those that are lost.
func (view) MaxCounted() int { return maxCounted }

func (view) MaxVanished() int { return maxVanished }

func (view) MaxTicks() int   { return maxTicks }
func (view) MaxDivided() int { return maxDivided }
func (view) MaxError() int   { return maxError }

// MaxOutlived, MaxPassed and MaxThinned bound what is done at once.
func (view) MaxOutlived() int { return maxOutlived }
func (view) MaxPassed() int   { return maxPassed }
func (view) MaxThinned() int  { return maxThinned }

// Retains is the condition that a subscription has a retention.
func (view) Retains(row string) string {
	return fmt.Sprintf("(%[1]s.max_age IS NOT NULL OR %[1]s.max_messages IS NOT NULL)", row)
}

// Cuts is the condition that a subscription is moved forward only.
func (view) Cuts(why string) string { return why + " IN ('cut', 'retention')" }

// LostByRetention is what is logged of a loss.
func (view) LostByRetention() string {
	return "a subscription was behind its retention and has lost messages"
}

// Permanent is the header of a parked message that nobody is to attempt again.
func (view) Permanent() string { return header.Permanent }

// Blocks is the condition that a parked message keeps others of its key from being handed out: it has not ended, or it
// is a dead letter that blocks its key.
func (view) Blocks(row string) string {
	if row != "" {
		row += "."
	}
	return strings.ReplaceAll("(@completed_at IS NULL OR @failed_at IS NOT NULL AND @cancelled_at IS NULL "+
		"AND @key_policy > 0)", "@", row)
}

// ParkedKey is the key of the core for a message of the subscription $1. Names of subscriptions have neither separator,
// so no two keys are the same.
func (view) ParkedKey(key string) string {
	return fmt.Sprintf("CASE WHEN octet_length($1 || ':' || %[1]s) <= %[2]d THEN $1 || ':' || %[1]s\n"+
		"                    ELSE $1 || '#' || encode(sha256(convert_to(%[1]s, 'UTF8')), 'hex') END", key, keyed.MaxKey)
}

// Drawn is the last number that was drawn.
func (v view) Drawn() string {
	return fmt.Sprintf("(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM %s AS q)", v.Named("seq"))
}

// WriterLock is the advisory lock that the writers of a key hold until they commit, TickLock that of the tickers.
func (v view) WriterLock(key string) string {
	return fmt.Sprintf("hashtextextended('%s ' || %s, 1)", v.Name(), key)
}

// QualifiedWriterLock is WriterLock for a function without a search_path of its own.
func (v view) QualifiedWriterLock(key string) string {
	return "pg_catalog." + strings.ReplaceAll(v.WriterLock(key), " || ", " OPERATOR(pg_catalog.||) ")
}

// DueLock is the advisory lock of the one who appends what is due.
func (v view) DueLock() string { return fmt.Sprintf("hashtextextended('%s due', 0)", v.Name()) }

func (v view) TickLock() string { return fmt.Sprintf("hashtextextended('%s tick', 0)", v.Name()) }

// SilentLock is the advisory lock that transactions hold, in shared mode, which have left it to a ticker to find their
// messages. QualifiedSilentLock is for a function without a search_path of its own.
func (v view) SilentLock() string { return fmt.Sprintf("hashtextextended('%s silent', 0)", v.Name()) }

func (v view) QualifiedSilentLock() string { return "pg_catalog." + v.SilentLock() }

// IsSilent is the condition that a promise to tick is running, for a function without a search_path. A promise that
// ends later than any can is one of a clock that was put back.
func (view) IsSilent() string {
	return "silent_until OPERATOR(pg_catalog.-) pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) interval '0' " +
		"AND silent_until OPERATOR(pg_catalog.-) pg_catalog.clock_timestamp() OPERATOR(pg_catalog.<=) interval '" +
		maxPromise + "'"
}

// MaxPromise is for how long one can promise to tick.
func (view) MaxPromise() string { return maxPromise }

// MaxNews is among how many new messages a tick looks for subscriptions that want them.
func (view) MaxNews() int { return maxNews }

// Announce tells all relays that listen of what an expression says: the names of subscriptions that have news behind a
// new tick; all of them; or nothing, for messages that nobody has ticked.
func (v view) Announce(what string) string { return ParkedSpec(v.schema).AnnounceExternal(what) }

// RestLock is the advisory lock of the one who makes a subscription rest.
func (v view) RestLock(subscription string) string {
	return fmt.Sprintf("hashtextextended('%s rest ' || %s, 0)", v.Name(), subscription)
}

// FirstRest and LongestRest are how long a destination rests.
func (view) FirstRest() string {
	return fmt.Sprintf("interval '%g seconds'", outage.FirstRest.Seconds())
}
func (view) LongestRest() string {
	return fmt.Sprintf("interval '%g seconds'", outage.LongestRest.Seconds())
}

// Rest is a rest that begins now. One that is nobody's is NULL.
func (v view) Rest(since, length, cause string) string {
	return fmt.Sprintf("ROW(%s, clock_timestamp() + %[2]s * (1 - %[3]g * random()), %[2]s, left(%[4]s, %[5]d))::%[6]s",
		since, length, outage.RestJitter, cause, maxError, v.Named("rest"))
}

// IsOver is the condition that a rest is over, also because the clock went back.
func (v view) IsOver(rest string) string {
	return fmt.Sprintf("((%[1]s).until <= clock_timestamp() OR (%[1]s).until > clock_timestamp() + %[2]s)", rest,
		v.LongestRest())
}

// NextRest is the rest that follows that of a position.
func (v view) NextRest(row, cause string) string {
	return v.Rest("("+row+".rest).since", fmt.Sprintf("least(2 * (%s.rest).length, %s)", row, v.LongestRest()), cause)
}

// RestAgain is the first rest of a position's destination, if that is unavailable.
func (v view) RestAgain(row string) string {
	rest := "(" + row + ".rest)."
	return fmt.Sprintf("CASE WHEN %ssince IS NOT NULL THEN %s END", rest,
		v.Rest(rest+"since", v.FirstRest(), rest+"cause"))
}

// Settings pin the plans of the functions: each statement has one good plan, by index.
func (view) Settings() string {
	return "SET search_path = pg_catalog, pg_temp\nSET enable_seqscan = off\nSET enable_bitmapscan = off\nSET jit = off"
}

// SeesAll refuses roles that do not see all rows, see [sqltext.SeesAll].
func (v view) SeesAll() string {
	return sqltext.SeesAll(v.Log(), v.Named("state"), v.Named("tick"), v.Named("subscription"), v.Named("position"),
		v.Parked())
}

// SeesSlots refuses roles that do not see all rows of the partitions, which may have policies of their own.
func (v view) SeesSlots() string {
	slots := make([]string, len(v.EachSlot()))
	for i, n := range v.EachSlot() {
		slots[i] = v.Slot(n)
	}
	return sqltext.SeesAll(slots...)
}

// SeesLosses refuses roles that do not see all that was passed over.
func (v view) SeesLosses() string { return sqltext.SeesAll(v.Named("loss")) }

// SeesLater refuses roles that do not see all that is scheduled.
func (v view) SeesLater() string { return sqltext.SeesAll(v.Named("later"), v.Named("dedup")) }

// HidesLater is the condition that the role does not see all that is scheduled, for who pins no search_path.
func (v view) HidesLater() string { return sqltext.Hides(v.Named("later")) }

// HidesTicks is the condition that it does not see all ticks.
func (v view) HidesTicks() string { return sqltext.Hides(v.Named("tick")) }

// RefusesPart refuses a role because of that.
func (v view) RefusesPart() string { return sqltext.Refuse(v.Log()) }

// Restored says that the ids of transactions began again, and RebaseHint what to do then.
func (v view) Restored() string {
	return v.Name() + " is in another cluster than the one in which it was written: transaction ids began again"
}
func (v view) RebaseHint() string {
	return "After a restore, stop the consumers of the old cluster, then SELECT " + v.Name() + "_rebase()."
}

// IsRestored is the condition that it is so, which RefusesRestored refuses.
func (v view) IsRestored() string { return sqltext.LogRestored(v.Named("tick"), v.Named("state")) }
func (v view) RefusesRestored() string {
	return refuse("("+v.IsRestored()+")", "object_not_in_prerequisite_state", sqltext.Literal(v.Restored()),
		v.RebaseHint())
}

// RefusesSession refuses a transaction whose statements do not see what others have committed meanwhile.
func (view) RefusesSession(what string) string { return sqltext.RefuseSession(what) }

// RefusesUnknown refuses a subscription that the row s does not have.
func (view) RefusesUnknown() string {
	return sqltext.RefuseUnless("own.s.name IS NOT NULL", "subscription", "is unknown",
		"Subscribe first, or correct the name.")
}

// LocksSubscription reads the row s of the subscription that a verb is about, and locks it against other verbs.
// Consumers only read it.
func (v view) LocksSubscription() string {
	return fmt.Sprintf(`SELECT s.* INTO own.s FROM %s AS s WHERE s.name = $1 FOR NO KEY UPDATE;
    IF own.s.name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = format('name %%s is not that of a subscription', coalesce(quote_literal($1), 'NULL')),
            HINT = 'Subscribe first, or correct the name.';
    END IF;`, v.Named("subscription"))
}

// RefusesTaken refuses a name that a subscription has: nothing was inserted.
func (view) RefusesTaken() string {
	return `IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'unique_violation', COLUMN = 'name',
            MESSAGE = format('subscription %s is there already', $1),
            HINT = 'Change it, or choose another name.';
    END IF;`
}

// StartsAt finds what has been seen at a start: by the newest tick until then. It locks the state against the removal
// of what is to be read, and refuses a start before what is kept.
func (v view) StartsAt(param string) string {
	return fmt.Sprintf(`SELECT s.gone INTO own.gone FROM %[1]s AS s FOR SHARE;
    SELECT (t.seen).* INTO own.seen FROM %[2]s AS t WHERE t.at <= %[3]s ORDER BY t.n DESC LIMIT 1;
    IF own.seen.n IS NULL THEN
        seen := ROW(0, 0, 0, '{}', 0);
    END IF;
    IF isfinite(%[3]s) AND own.seen.n < own.gone THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'start',
            MESSAGE = format('start %%s is before the messages that are kept', %[3]s),
            HINT = format('Start at %%s or later, or at -infinity: with the oldest message that is kept.',
                (SELECT to_char(min(t.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
                FROM %[2]s AS t WHERE t.n >= own.gone));
    END IF;`, v.Named("state"), v.Named("tick"), param)
}

// Patterns are the columns topics and prefixes of a list of topics. NULL is all of them, as is a list with *.
func (view) Patterns(param string) string {
	return fmt.Sprintf("CASE WHEN '*' <> ALL (%[1]s) THEN ARRAY(SELECT t FROM unnest(%[1]s) AS t "+
		"WHERE right(t, 1) <> '*') END,\n        CASE WHEN '*' <> ALL (%[1]s) THEN ARRAY(SELECT left(t, -1) "+
		"FROM unnest(%[1]s) AS t WHERE right(t, 1) = '*') END", param)
}

// Selected is the column of the headers that messages must have. NULL is none, as is an empty object.
func (view) Selected(param string) string { return fmt.Sprintf("nullif(%s, '{}')", param) }

// TakesPage are assignments that take the page in hand from its consumer. The token of a batch that has ended stays, so
// that its settle can be repeated.
func (view) TakesPage() string {
	return `rest = NULL,
            page = NULL,
            whole = false,
            withheld = '{}',
            owner_token = CASE WHEN t.locked_until IS NULL THEN t.owner_token END,
            locked_until = NULL`
}

// TakenAttempts are the attempts of a batch whose lane is taken from its consumer: the claim is not counted, unless its
// lease has ended, since its consumer may have died.
func (view) TakenAttempts() string {
	return "greatest(t.attempts - (t.locked_until >= clock_timestamp() IS TRUE)::integer, 0)"
}

// Pauses are the verbs about pauses, and what each sets.
func (view) Pauses() map[string]bool { return map[string]bool{"pause": true, "resume": false} }

// CountParked counts parked messages that have not ended, and dead letters.
func (view) CountParked(row string) string {
	return strings.ReplaceAll("count(*) FILTER (WHERE @.completed_at IS NULL), "+
		"count(*) FILTER (WHERE @.failed_at IS NOT NULL AND @.cancelled_at IS NULL)", "@", row)
}

// RefusesParked refuses to remove what has parked messages, unless that is wanted.
func (view) RefusesParked(isWanted string) string {
	return refuseState("live + dead > 0 AND "+isWanted+" IS NOT TRUE", "parked",
		"format('subscription %s has %s parked messages that have not ended, and %s dead letters', $1, live, dead)",
		"Let them end, redrive or discard them, or pass parked => true, which deletes them.")
}

// RefusesMoving refuses to resume or to remove the subscription to which the outbox of rows still moves: what stands
// behind its rows would be delivered before them, or the rows would have nowhere to go.
func (v view) RefusesMoving() string {
	return refuseState(fmt.Sprintf("EXISTS (SELECT FROM %s AS s WHERE s.moving AND s.successor = $1)", v.Named("state")),
		"name", "format('the outbox still moves to subscription %s, which is resumed when all rows have', $1)",
		"Run txwork outbox move again, which goes on with the move.")
}

// RefusesApart refuses to change the lanes of a subscription where messages of one key could be in two of them.
func (v view) RefusesApart() string {
	return refuseState(fmt.Sprintf("(SELECT count(DISTINCT (p.seen).n) > 1 OR bool_or((p.upto).n IS NOT NULL)\n"+
		"            FROM %s AS p WHERE p.subscription = $1)", v.Named("position")), "lanes",
		"format('lanes of subscription %s can only be changed while all are at one place, with no batch in hand', $1)",
		"Let its consumers settle all there is, or replay to one place in the same transaction before.")
}

// refuseState refuses what a parameter asks for, in the state in which the subscription is.
func refuseState(condition, parameter, message, hint string) string {
	return fmt.Sprintf(`IF %s THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', COLUMN = '%s',
            MESSAGE = %s,
            HINT = %s;
    END IF;`, condition, parameter, message, sqltext.Literal(hint))
}

// refuse is a statement of PL/pgSQL. The message is an expression.
func refuse(condition, code, message, hint string) string {
	return fmt.Sprintf(`IF %s THEN
        RAISE EXCEPTION USING ERRCODE = '%s',
            MESSAGE = %s,
            HINT = %s;
    END IF;`, condition, code, message, sqltext.Literal(hint))
}

// Durable makes the commit of the caller's transaction wait for the log of the server: what is flushed before it are
// the messages of the page, their producers and the tick.
func (view) Durable() string {
	return `IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;`
}

// IdleBound bounds how long the caller may be idle in its transaction, in which it holds the lock of the position.
func (view) IdleBound(most string) string { return sqltext.IdleBound(most) }
