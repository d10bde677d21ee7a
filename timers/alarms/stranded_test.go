package alarms_test

import (
	"strings"
	"testing"

	"github.com/txwork/txwork/timers/alarms"
)

// Looking for alarms that no timer would fire costs what is due, however many alarms and timers there are.
func TestRepairReadsWhatIsDueOnly(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	f.exec("INSERT INTO " + f.table + " (owner_did, user_id, kind, next_fire_at, wake_message) SELECT 'd', 'u', 'once', now() + interval '1 day', 'm' FROM generate_series(1, 5000)")
	f.exec("INSERT INTO " + f.timers + " (key, topic, payload, fire_at, due_at, generation) SELECT 'alarm/' || id, 'alarm', '', next_fire_at, next_fire_at, 1 FROM " + f.table)
	f.exec("ANALYZE " + f.table)
	f.exec("ANALYZE " + f.timers)
	rows, err := f.Pool.Query(t.Context(), "EXPLAIN (COSTS OFF) "+alarms.StrandedStatement(f.alarms), 100)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, index := range []string{"alarms_due_idx", "timers_unique_idx"} {
		if !strings.Contains(plan.String(), index) {
			t.Errorf("the plan does without %s:\n%s", index, &plan)
		}
	}
	if strings.Contains(plan.String(), "Seq Scan") {
		t.Errorf("the plan reads a whole table:\n%s", &plan)
	}
}
