package security_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/postgres"
)

// writes are calls of the functions through which programs in any language write rows, in two lanes of tenants: of the
// domains, and of the application's own table. All have values that only one row may have.
var writes = map[string]string{
	"outbox":  `outbox_enqueue('{tenant}.sent', '{}', key => '{tenant}.k', dedup_key => '1')`,
	"inbox":   `inbox_receive('{tenant}.c', 's', '1', '{}')`,
	"timers":  `timers_set('{tenant}.k', 'fired', pg_catalog.now(), '{}')`,
	"jobs":    `jobs_enqueue('print', '{}', queue => '{tenant}.q', ordered_key => '{tenant}.k', unique_key => '1')`,
	"letters": `letters_enqueue('{tenant}.a', ordered_key => '{tenant}.k')`,
}

func writeOf(tenant, table string) string {
	return "SELECT id, duplicate FROM " + strings.ReplaceAll(writes[table], "{tenant}", tenant)
}

// The rights of a producer are enough for the functions that write rows, and those of a viewer are not.
func TestAProducerWritesThroughFunctions(t *testing.T) {
	f := newFixture(t)
	producer := f.as("producer")
	for table := range writes {
		var first, second uuid.UUID
		var isNew, again bool
		must(t, producer.QueryRow(t.Context(), writeOf("a", table)).Scan(&first, &isNew))
		must(t, producer.QueryRow(t.Context(), writeOf("a", table)).Scan(&second, &again))
		if isNew || !again || first != second {
			t.Errorf("%s: wrote %v (%t), and then %v (%t)", table, first, isNew, second, again)
		}
		f.refuses(f.as("viewer"), forbidden, writeOf("b", table))
	}
	f.exec(f.as("worker"), writeOf("b", "outbox"))
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
		f.exec(producer, writeOf("a", table))
		f.refuses(producer, forbidden, writeOf("b", table))
	}
}

// What a schema before pg_catalog offers is not used, and a row with a key is refused without its triggers.
func TestFunctionsThatWriteDependOnNoSession(t *testing.T) {
	f := newFixture(t)
	hijack := with(t, f.db, "search_path", hijacked(t, f.db, impostors))
	replica := with(t, f.db, "session_replication_role", "replica")
	for table := range writes {
		f.exec(hijack, writeOf("a", table))
		if table == "inbox" || table == "timers" {
			continue // whose rows have no key
		}
		_, err := replica.Exec(t.Context(), writeOf("b", table))
		if postgres.State(err) != "22P02" || !strings.Contains(err.Error(), "session_replication_role is replica") {
			t.Errorf("%s without triggers: %v", table, err)
		}
	}
}
