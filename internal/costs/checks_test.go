package costs_test

import "testing"

// TestChecksAreShort measures what PostgreSQL parses and compiles again for every statement that writes to the table of
// jobs: its CHECKs, and the conditions of the triggers that a settle may fire.
func TestChecksAreShort(t *testing.T) {
	j := newLab(t).jobs()
	for _, part := range []struct {
		name, query string
		budget      int64
	}{
		{"CHECKs",
			"SELECT sum(length(conbin::text)) FROM pg_constraint WHERE contype = 'c' AND conrelid = $1::regclass",
			checkBytes},
		{"conditions of triggers", `SELECT sum(length(t.tgqual::text)) FROM pg_trigger AS t
			JOIN pg_attribute AS a ON a.attrelid = t.tgrelid AND a.attname = 'completed_at' AND a.attnum = ANY (t.tgattr)
			WHERE t.tgrelid = $1::regclass`, whenBytes},
	} {
		got := j.count(part.query, j.name)
		t.Logf("%s: %d bytes", part.name, got)
		if got == 0 || got > part.budget {
			t.Errorf("%s have %d bytes, want 1 to %d", part.name, got, part.budget)
		}
	}
}
