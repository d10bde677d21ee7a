package inbox_test

import (
	"testing"

	"github.com/txwork/txwork/inbox"
)

// A sender acknowledges on 2xx, comes again on 5xx, and gives up on 4xx: only what may yet fail comes again.
func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	for answer, want := range map[inbox.Answer]int{
		inbox.Processed: 200, inbox.Stored: 200, inbox.Duplicate: 200,
		inbox.InProgress: 503, inbox.HashMismatch: 422, inbox.Result{}.Answer: 500,
	} {
		if got := answer.HTTPStatus(); got != want {
			t.Errorf("%v: %d, want %d", answer, got, want)
		}
	}
}
