package workqueue

import (
	"strings"
	"testing"
)

// The errors of inserts may be logged, so they must not contain the values that an application wanted to store.
func TestAValueThatIsRefusedIsNotTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		column string
		value  any
		want   string
	}{
		{"bytea", "hunter2", "is a string, which is no bytea"},
		{"text", map[string]string{"password": "hunter2"}, "is a map[string]string, which is no text"},
		{"uuid", []byte("hunter2"), "is a []uint8, which is no uuid"},
		{"smallint", 70000, "is 70000, a int, which is no smallint"},
	} {
		_, err := columnValue(Column{Name: "body", Type: c.column}, c.value)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", c.column, err, c.want)
		}
	}
}
