package alarms_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/timers/alarms"
)

// The cost of finding alarms that no timer would fire depends on those that are due, not on the number of alarms and
// timers.
func TestRepairReadsWhatIsDueOnly(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	f.exec("INSERT INTO " + f.table + " (owner_did, user_id, kind, next_fire_at, wake_message) SELECT 'd', 'u', " +
		"'once', now() + interval '1 day', 'm' FROM generate_series(1, 5000)")
	f.exec("INSERT INTO " + f.timers + " (key, topic, payload, fire_at, due_at, generation) SELECT 'alarm/' || id, " +
		"'alarm', '', next_fire_at, next_fire_at, 1 FROM " + f.table)
	f.exec("ANALYZE " + f.table)
	f.exec("ANALYZE " + f.timers)
	f.expectIndexes(alarms.StrandedStatement(f.alarms), []any{time.Time{}, uuid.Nil, 100}, "alarms_due_idx",
		"timers_unique_idx")
}

// The cost of a chunk of a list depends on its own rows, not on the number or the size of those before it.
func TestAListReadsAChunkOnly(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	f.exec("INSERT INTO " + f.table + " (owner_did, user_id, kind, next_fire_at, wake_message, created_at) SELECT " +
		"'d' || i % 3, 'u', 'once', now() + interval '1 day', 'm', now() - i * interval '1 s' FROM " +
		"generate_series(1, 9000) AS i")
	f.exec("INSERT INTO " + f.timers + " (key, topic, payload, fire_at, due_at, generation) SELECT 'alarm/' || id, " +
		"'alarm', '', next_fire_at, next_fire_at, 1 FROM " + f.table)
	f.exec("ANALYZE " + f.table)
	f.exec("ANALYZE " + f.timers)
	f.expectIndexes(alarms.ListStatement(f.alarms), []any{"d1", nil, nil, 20}, "alarms_owner_idx", "timers_unique_idx")
	f.expectIndexes(alarms.ListStatement(f.alarms), []any{"d1", time.Now().Add(-time.Hour), uuid.Max, 20},
		"alarms_owner_idx", "timers_unique_idx")
}

// expectIndexes checks that the plan of a statement uses these indexes.
func (f *fixture) expectIndexes(statement string, args []any, indexes ...string) {
	f.Helper()
	rows, err := f.Pool.Query(f.Context(), "EXPLAIN (COSTS OFF) "+statement, args...)
	if err != nil {
		f.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.Fatal(err)
	}
	plan := strings.Join(lines, "\n")
	for _, index := range indexes {
		if !strings.Contains(plan, index) {
			f.Errorf("the plan does without %s:\n%s", index, plan)
		}
	}
	if strings.Contains(plan, "Seq Scan") {
		f.Errorf("the plan reads a whole table:\n%s", plan)
	}
}
