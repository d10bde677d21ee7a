package security_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/postgres"
)

// writes are calls of the functions through which programs in any language write rows, of the one for one row and of
// that for many, in two lanes of tenants: of the domains, and of the application's own table. All have values that only
// one row may have.
var writes = map[string][2]string{
	"outbox": {`outbox_enqueue('{tenant}.sent', '{}', key => '{tenant}.k', dedup_key => '1')`,
		`outbox_enqueue_many('[{"topic": "{tenant}.sent", "payload": {}, "key": "{tenant}.k", "dedup_key": "1"}]')`},
	"inbox": {`inbox_receive('{tenant}.c', 's', '1', '{}')`,
		`inbox_receive_many('[{"consumer": "{tenant}.c", "source": "s", "message_id": "1", "payload": {}}]')`},
	"timers": {`timers_set('{tenant}.k', 'fired', pg_catalog.now(), '{}')`,
		`timers_set_many('[{"key": "{tenant}.k", "topic": "fired", "scheduled_at": "2026-01-02T03:04:05Z"}]')`},
	"jobs": {`jobs_enqueue('print', '{}', queue => '{tenant}.q', ordered_key => '{tenant}.k', unique_key => '1')`,
		`jobs_enqueue_many('[{"kind": "print", "args": {}, "queue": "{tenant}.q", "ordered_key": "{tenant}.k",
			"unique_key": "1"}]')`},
	"letters": {`letters_enqueue('{tenant}.a', ordered_key => '{tenant}.k')`,
		`letters_enqueue_many('[{"address": "{tenant}.a", "ordered_key": "{tenant}.k"}]')`},
}

// writesOf are the two calls for a table.
func writesOf(tenant, table string) (calls [2]string) {
	for i, call := range writes[table] {
		calls[i] = "SELECT id, duplicate FROM " + strings.ReplaceAll(call, "{tenant}", tenant)
	}
	return calls
}

// The rights of a producer are enough for the functions that write rows, and those of a viewer are not.
func TestAProducerWritesThroughFunctions(t *testing.T) {
	f := newFixture(t)
	producer := f.as("producer")
	for table := range writes {
		for i, write := range writesOf("a", table) {
			f.exec(f.db.Pool, "DELETE FROM "+table)
			var first, second uuid.UUID
			var isNew, again bool
			must(t, producer.QueryRow(t.Context(), write).Scan(&first, &isNew))
			must(t, producer.QueryRow(t.Context(), writesOf("a", table)[1-i]).Scan(&second, &again))
			if isNew || !again || first != second {
				t.Errorf("%s: wrote %v (%t), and then %v (%t)", write, first, isNew, second, again)
			}
			f.refuses(f.as("viewer"), forbidden, write)
			f.exec(f.as("worker"), write)
		}
	}
}

// A function writes with the rights of its caller: a policy of the table applies.
func TestFunctionsThatWriteObeyPolicies(t *testing.T) {
	f := newFixture(t)
	f.separate()
	producer := f.asTenant("producer", "a")
	for table := range writes {
		if table == "letters" {
			continue // its rows have a topic of their own
		}
		for i, write := range writesOf("b", table) {
			f.exec(producer, writesOf("a", table)[i])
			f.refuses(producer, forbidden, write)
		}
	}
}

// What a schema before pg_catalog offers is not used, and a row with a key is refused without its triggers.
func TestFunctionsThatWriteDependOnNoSession(t *testing.T) {
	f := newFixture(t)
	hijack := with(t, f.db, "search_path", hijacked(t, f.db, impostors))
	replica := with(t, f.db, "session_replication_role", "replica")
	for table := range writes {
		for i, write := range writesOf("b", table) {
			f.exec(f.db.Pool, "DELETE FROM "+table)
			f.exec(hijack, writesOf("a", table)[i])
			if table == "inbox" || table == "timers" {
				continue // whose rows have no key
			}
			_, err := replica.Exec(t.Context(), write)
			if postgres.State(err) != "22P02" || !strings.Contains(err.Error(), "session_replication_role is replica") {
				t.Errorf("%s without triggers: %v", write, err)
			}
		}
	}
}
