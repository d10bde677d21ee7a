package workqueue_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/txwork/txwork/workqueue"
)

// A caller that names no delay means the table's backoff, and not a retry at once until the attempts are used up.
func TestAbandonInSQLHasTheTablesBackoff(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	id, token := r.insert("a")[0], workqueue.NewOwnerToken()
	r.exec("SELECT notes_fetch($1, '60 s', 1)", token)
	r.exec("SELECT notes_retry($1, ARRAY[$2::uuid])", token, id)
	if row := r.row(id); row.DueIn < 30*time.Minute {
		t.Errorf("due in %v, want the backoff of an hour", row.DueIn)
	}
}

func TestErrorsOfSQLAreShortened(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	for name, message := range map[string]string{
		"ascii": strings.Repeat("x", 100_000), "two bytes": strings.Repeat("é", 50_000), "four bytes": "x" +
			strings.Repeat("🙂", 30_000),
		"mixed": strings.Repeat("x", 8000) + strings.Repeat("🙂", 3000), "as long as it may be": strings.Repeat("x",
			8192),
	} {
		for _, call := range []string{"notes_fail($1, ARRAY[$2::uuid], $3)",
			"notes_retry($1, ARRAY[$2::uuid], NULL, $3)"} {
			id, token := r.insert("a")[0], workqueue.NewOwnerToken()
			r.exec("SELECT notes_fetch($1, '60 s', 1)", token)
			r.exec("SELECT "+call, token, id, message)
			got := r.row(id).Error
			if len(got) > 8192 || len(got) < 8192-3 || !utf8.ValidString(got) || !strings.HasPrefix(message, got) {
				t.Errorf("%s: %d bytes are stored of %d", name, len(got), len(message))
			}
			r.exec("DELETE FROM notes")
		}
	}
}
