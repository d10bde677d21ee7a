package announce

import (
	"strings"
	"time"
)

// What begins the payload of a notification. One that has none of them announces rows.
const (
	PayloadFold  = "fold:"  // of rows that a fold released
	PayloadFront = "front:" // of where a fold has put them
	PayloadNote  = "note:"  // of notes

	// PayloadExternal is of messages that are no rows of the table, see workqueue.External.
	PayloadExternal = "external:"
)

// SilentWithin is the greatest age at which a transaction leaves its notification to the announcer. The announcer looks
// that far back for rows that become visible late.
const SilentWithin = 500 * time.Millisecond

// FoldsSetting is the setting of a transaction whose owner folds a table's notes right after its commit. Its value is
// the table's name.
const FoldsSetting = "txwork.folds"

// OnlyLane is the label of a table without lanes.
const OnlyLane = "all"

// A Table is what the snippets name.
type Table struct {
	Name  string   // with its schema, and without quotes; also the channel
	Lanes []string // its lanes' columns
}

// fullQueue is the share of the server's queue of notifications that is in use when no more are sent.
const fullQueue = "0.9"

// Notify sends a notification with an SQL expression as its payload, on the table's channel, unless the server's queue
// is all but full, because some session that listens stays in a transaction. In a full queue the notification would
// fail its transaction, and whatever that has written. Without it, work waits for a poll.
func (t Table) Notify(payload string) string {
	return "(CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) " + fullQueue +
		" THEN pg_catalog.pg_notify('" + t.Name + "', " + payload + ") ELSE ''::pg_catalog.void END)"
}

// Rows notifies of rows that are due no earlier than a time, which is given as an SQL expression.
func (t Table) Rows(due string) string {
	return t.Notify("(extract(epoch FROM " + due + ") OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text")
}

// Folded is Rows for rows that a fold has released. The process that folded wakes its own workers without it, and it is
// no sign of busy producers.
func (t Table) Folded() string { return t.began(PayloadFold) }

// Note notifies of a note that this transaction has written, if [Table.MustNote].
func (t Table) Note() string { return t.began(PayloadNote) }

// External notifies of messages that are no rows of the table, with what an SQL expression tells of them. Its caller
// bounds how often: no announcer does it for producers.
func (t Table) External(what string) string {
	return t.Notify("pg_catalog.concat('" + PayloadExternal + "', " + what + ")")
}

// began notifies with the start of the transaction as the payload.
func (t Table) began(payload string) string {
	return t.Notify("pg_catalog.concat('" + payload +
		"', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint)")
}

// Fronts is what a fold PERFORMs before [Table.Folded] if it has released rows by its argument fronts, see
// workqueue.Fold: other processes move their claims back to where these rows are.
func (t Table) Fronts() string {
	return t.Notify("pg_catalog.concat('" + PayloadFront + "', fronts)")
}

// Front is the earliest due time that a fold may give a row that it releases, by its argument fronts: just beyond the
// last claim of the row's lane, or now.
func (t Table) Front(row string) string {
	lane := make([]string, len(t.Lanes))
	for i, name := range t.Lanes {
		lane[i] = row + `."` + name + `"`
	}
	label := "'" + OnlyLane + "'"
	if len(lane) > 0 {
		label = "left(encode(sha256(convert_to(jsonb_build_array(" + strings.Join(lane, ", ") +
			")::text, 'UTF8')), 'hex'), 16)"
	}
	return "least((fronts ->> " + label + ")::timestamptz, now())"
}

// Lock is the advisory lock that a table's announcer holds exclusively while it is awake.
func (t Table) Lock() string { return "pg_catalog.hashtextextended('" + t.Name + " announcer', 0)" }

// SilentLock is the advisory lock of transactions that may have left their notification to the announcer. They hold it
// in shared mode until their rows are visible.
func (t Table) SilentLock() string { return "pg_catalog.hashtextextended('" + t.Name + " silent', 0)" }

// Must is the condition on which a transaction notifies: no announcer is awake that announces what it makes claimable.
// A transaction that it tells to be silent keeps a lock until its rows are visible. The announcer sees such locks, and
// so knows of the transaction.
//
// To test the announcer's lock, the condition tries to take it in shared mode, and gives it back at once. The second
// test is the one that counts; the first spares transactions the other lock if no announcer is awake.
func (t Table) Must() string {
	lock := t.Lock()
	nobody := "(CASE WHEN pg_catalog.pg_try_advisory_lock_shared(" + lock +
		") THEN pg_catalog.pg_advisory_unlock_shared(" + lock + ") ELSE false END)"
	return "(CASE\n        WHEN " + nobody + " THEN true" +
		"\n        WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) " +
		"(pg_catalog.now() OPERATOR(pg_catalog.+) '" + SilentWithin.String() + "'::pg_catalog.interval) THEN true" +
		"\n        WHEN pg_catalog.pg_try_advisory_xact_lock_shared(" + t.SilentLock() + ") THEN " + nobody +
		"\n        ELSE true END)"
}

// MustNote is the condition of [Table.Note]: the transaction is not that of a worker, which folds by itself, and no
// announcer announces the note, see [Table.Must].
func (t Table) MustNote() string {
	return "(CASE WHEN pg_catalog.current_setting('" + FoldsSetting + "', true) OPERATOR(pg_catalog.=) '" + t.Name +
		"' THEN false ELSE " + t.Must() + " END)"
}

// NoteStatement is what a trigger in PL/pgSQL does that has written a note: Note if MustNote.
func (t Table) NoteStatement() string {
	return "IF " + t.MustNote() + " THEN\n    PERFORM " + t.Note() + ";\nEND IF;"
}
