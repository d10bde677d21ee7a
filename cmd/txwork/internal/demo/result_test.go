package demo_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/txwork/txwork/cmd/txwork/internal/demo"
)

func TestResultJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(demo.Result{Enqueued: 9, Applied: 8, Lost: 7, AppliedTwice: 6, Redelivered: 5,
		RolledBackSeen:      4,
		StaleSettlesRefused: 3, Seconds: 2.25, Balanced: true})
	const want = `{"enqueued":9,"applied":8,"lost":7,"applied_twice":6,"redelivered":5,"rolled_back_seen":4,` +
		`"stale_settles_refused":3,"seconds":2.25,"balanced":true}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestResultErr(t *testing.T) {
	t.Parallel()
	const prefix = "the reckoning does not come out: "
	for want, r := range map[string]demo.Result{
		prefix + "1 lost":                           {Lost: 1, Balanced: true},
		prefix + "2 applied twice":                  {AppliedTwice: 2, Balanced: true},
		prefix + "3 applied though rolled back":     {RolledBackSeen: 3, Balanced: true},
		prefix + "the books do not balance":         {},
		prefix + "1 lost, the books do not balance": {Lost: 1},
	} {
		if err := r.Err(); err == nil || err.Error() != want || !errors.Is(err, demo.ErrUnreconciled) {
			t.Errorf("%+v: error %v, want %s", r, err, want)
		}
	}
	if err := (demo.Result{Balanced: true, Redelivered: 1, StaleSettlesRefused: 1}).Err(); err != nil {
		t.Errorf("error %v for a correct result", err)
	}
}
