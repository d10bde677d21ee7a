package workqueue

import (
	"fmt"

	"github.com/txwork/txwork/internal/postgres"
)

// needed are the triggers on which correctness depends, by their names after the table's, with the functions that they
// call, and the side table that they are on, if it is one. A table that has the function needs the trigger. What
// announce would wake is found by the next poll.
var needed = []struct{ trigger, function, side string }{
	{"key_enter", "key_enter", ""}, {"key_come", "key_come", ""}, {"key_back", "key_back", ""},
	{"key_wait", "key_wait", ""}, {"key_note", "key_note", ""}, {"key_gone", "key_note", ""},
	{"key_move", "key_move", ""},
	{"key_gone_all", "key_forget", ""}, {"key_lost_all", "key_forget", "_key_note"},
	{"join_settle", "join_settled", ""}, {"join_delete", "join_settled", ""},
	{"free_key", "free_key", ""}, {"start_key", "free_key", ""}, {"check_key", "check_key", ""},
	{"record", "record", ""}, {"forget", "forget", ""},
	{"give_slot", "give_slot", ""}, {"drop_slot", "give_slot", ""},
	{"rearm", "rearm", ""}, {"disarm", "disarm", ""},
}

// neededTriggers returns them as three arrays.
func neededTriggers() []any {
	triggers, functions, sides := make([]string, len(needed)), make([]string, len(needed)), make([]string, len(needed))
	for i, n := range needed {
		triggers[i], functions[i], sides[i] = n.trigger, n.function, n.side
	}
	return []any{triggers, functions, sides}
}

// A missingTrigger is one that does not run for the writes of a table.
type missingTrigger struct {
	name, table string
	disabled    bool // it is there
}

func (m missingTrigger) refuse(t *Table) error {
	const why = "without which the table does not keep what it promises, such as order and limits"
	schema := t.spec.Schema
	if m.disabled {
		return fmt.Errorf("txwork: %w: the trigger %s of %s.%s is disabled, %s: run ALTER TABLE %s.%s ENABLE TRIGGER %s",
			ErrSchemaVersion, m.name, schema, m.table, why, quote(schema), quote(m.table), quote(m.name))
	}
	return fmt.Errorf("txwork: %w: %s.%s has no trigger %s, %s: run the statement that %s prints, or the one in the "+
		"migration of your own table", ErrSchemaVersion, schema, m.table, m.name, why,
		postgres.Command(schema, "migrate", "validate"))
}
