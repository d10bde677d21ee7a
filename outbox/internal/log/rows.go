package log

import (
	"fmt"
	"math"
	"strings"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/topics"
)

// rows is the table of an outbox that moves to the log.
const rows = "outbox"

// rowsColumns are those of a row. A column of another name would be lost.
var rowsColumns = strings.Fields("id due_at created_at max_attempts attempts status waiting locked_until completed_at " +
	"owner_token failed_at cancelled_at last_error headers retry topic key payload dedup_key joined concurrency_key " +
	"key_limit key_policy key_rate key_burst key_seq aside")

// movedKeys bounds the keys that are moved in one transaction, each of which holds a lock.
const movedKeys = 200

// maxBack bounds the messages that become rows in one transaction, for which all producers wait.
const maxBack = 5000

// Rows is the table of rows, RowsNamed one that belongs to it, and RowsName its name without quotes.
func (v view) Rows() string { return fmt.Sprintf("%q.%q", v.schema, rows) }
func (v view) RowsNamed(suffix string) string {
	return fmt.Sprintf("%q.%q", v.schema, rows+"_"+suffix)
}
func (v view) RowsName() string  { return v.schema + "." + rows }
func (view) Table() string       { return name }
func (view) RowsColumns() string { return strings.Join(rowsColumns, ",") }
func (view) MovedKeys() int      { return movedKeys }
func (view) TopicBytes() int     { return topics.MaxLength }
func (v view) SeesRows() string  { return sqltext.SeesAll(v.Rows()) }
func (v view) rows() workqueue.Spec {
	return workqueue.Spec{Schema: v.schema, Table: rows, Topics: workqueue.Topics{Columns: []string{"topic"}}}
}

// RefusesBeforeSwitch refuses a transaction whose snapshot is from before the switch.
func (v view) RefusesBeforeSwitch() string {
	return fmt.Sprintf(`IF EXISTS (SELECT FROM %s AS s WHERE s.successor IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
            MESSAGE = '%s has moved to the log %s since this transaction began',
            HINT = 'Repeat the transaction.';
    END IF;`, v.Named("state"), v.RowsName(), v.Name())
}

// RefusesBeforeWayBack refuses a transaction whose snapshot is from before the way back.
func (v view) RefusesBeforeWayBack() string {
	return fmt.Sprintf(`IF EXISTS (SELECT FROM %s AS s WHERE s.successor IS NOT NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
            MESSAGE = '%s has moved back to %s since this transaction began',
            HINT = 'Repeat the transaction.';
    END IF;`, v.Named("state"), v.Name(), v.RowsName())
}

// Switches are the triggers of a move to the log or to rows. Those of the other are not dropped, which would wait for
// whoever reads the tables, but replaced by ones that never run.
func (v view) Switches(to string) string {
	var triggers []string
	for _, t := range []struct{ to, name, event, table, each, when, function string }{
		{"log", "moved", "INSERT", v.Rows(), "STATEMENT", "true", "rows_moved"},
		{"log", "moved", "INSERT OR UPDATE", v.RowsNamed("topic"), "ROW", "NEW.paused", "rows_moved"},
		{"log", "moved", "INSERT", v.Named("dedup"), "ROW", "true", "dedup_moved"},
		{"rows", "moved", "INSERT", v.Log(), "STATEMENT", "true", "moved_back"},
		{"rows", "moved", "INSERT", v.Named("later"), "STATEMENT", "true", "moved_back"},
		{"rows", "dedup", "INSERT", v.Rows(), "ROW", "NEW.dedup_key IS NOT NULL AND NEW.completed_at IS NULL", "dedup_back"},
	} {
		begin, end := "", ""
		if t.to != to {
			t.when = "false"
			begin = fmt.Sprintf("IF EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = '%s'::regclass "+
				"AND t.tgname = '%s_%s') THEN\n            ", t.table, name, t.name)
			end = "\n        END IF;"
		}
		triggers = append(triggers, fmt.Sprintf("%sCREATE OR REPLACE TRIGGER %s BEFORE %s ON %s\n"+
			"        FOR EACH %s WHEN (%s) EXECUTE FUNCTION %s();%s", begin, v.Own(t.name), t.event, t.table, t.each,
			t.when, v.Named(t.function), end))
	}
	return strings.Join(triggers, "\n        ")
}

// LocksProducers waits for all who write rows or messages, and lets nobody write behind it. The tables are those of
// producers, and others.
func (v view) LocksProducers(others ...string) string {
	return v.locksAll("SHARE ROW EXCLUSIVE", append([]string{v.Rows(), v.RowsNamed("topic")}, others...))
}

// LocksLog waits for all who use what producers write to the log, and lets nobody use it behind it.
func (v view) LocksLog() string { return v.locksAll("ACCESS EXCLUSIVE", nil) }

// locksAll locks what producers write to the log, and other tables. What is locked afterwards has to be free at once:
// nobody who waits behind it may have to wait until a deadlock is looked for.
func (v view) locksAll(mode string, tables []string) string {
	tables = append(tables, v.Named("dedup"), v.Named("later"), v.Log())
	for _, n := range v.EachSlot() {
		tables = append(tables, v.Slot(n))
	}
	return sqltext.LockAll("ARRAY['"+strings.Join(tables, "', '")+"']", mode) +
		"\n    PERFORM set_config('lock_timeout', '200ms', true);"
}

// GoesBack is the condition of a parked message that becomes a row: it has not ended, or it is a dead letter.
func (view) GoesBack(row string) string {
	return strings.ReplaceAll("(@.completed_at IS NULL OR @.failed_at IS NOT NULL AND @.cancelled_at IS NULL)", "@",
		row)
}

// SeesEverything has seen all transactions.
func (v view) SeesEverything() string {
	return fmt.Sprintf("ROW(%[1]d, %[1]d, %[1]d, '{}', 0)::%[2]s", int64(math.MaxInt64), v.Named("seen"))
}

func (view) MaxBack() int     { return maxBack }
func (view) MaxAttempts() int { return MaxAttempts }

// UnfinishedOf and Blocking are those of [keyed.Unfinished].
func (v view) UnfinishedOf(keys string) string {
	query, _ := keyed.Unfinished(v.rows(), keys, "")
	return query
}
func (v view) Blocking(row string) string {
	_, is := keyed.Unfinished(v.rows(), "", row)
	return is
}

// Limited are at most so many rows that have not ended and whose key has a limit, by the indexes of their table: all
// that wait, and those among so many that are released.
func (v view) Limited(most string) string {
	const query = "(SELECT FROM %[1]s AS r WHERE %[2]s LIMIT %[4]s)\n        UNION ALL\n        (SELECT FROM " +
		"(SELECT r.key_limit FROM %[1]s AS r WHERE %[3]s LIMIT %[4]s) AS r WHERE r.key_limit > 0)"
	waits, live := keyed.LimitedRows(v.rows(), "r")
	return fmt.Sprintf(query, v.Rows(), waits, live, most)
}

// RefusesNoRows refuses what is about the table of rows in a schema that has none.
func (v view) RefusesNoRows() string {
	return fmt.Sprintf(`RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'there is no table of rows %s that could move to the log %s',
            HINT = 'Run txwork migrate up --domain outbox, or open the outbox with Storage Log.';`, v.RowsName(),
		v.Name())
}
