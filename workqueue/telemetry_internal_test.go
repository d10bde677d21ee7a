package workqueue

import "testing"

// An operation without a name would be counted under none.
func TestEveryOperationHasItsNames(t *testing.T) {
	seen := map[string]bool{}
	for op := range operationCount {
		c := conventions[op]
		if c.name == "" || seen[c.name] {
			t.Errorf("operation %d: %+v", op, c)
		}
		seen[c.name] = true
	}
}
