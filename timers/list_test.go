package timers_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

func TestListPagesThroughAPrefix(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newTimers(t)
			for _, key := range []string{"a", "b/", "b/1", "b/Ä", "b/2", "B/3", "b0", "b/\U0010FFFF"} {
				f.set(timers.Timer{Key: key, Topic: "t", ScheduledAt: tomorrow})
			}
			f.cancel("b/2")
			tx, end := w.Begin(f, f.DB)
			defer end(true)
			list := func(filter timers.Filter) (keys []string) {
				infos, err := f.timers.List(t.Context(), tx, filter)
				if err != nil {
					t.Fatal(err)
				}
				for _, i := range infos {
					keys = append(keys, i.Key)
				}
				return keys
			}
			same := func(got []string, want ...string) {
				t.Helper()
				if !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			same(list(timers.Filter{}), "B/3", "a", "b/", "b/1", "b/2", "b/Ä", "b/\U0010FFFF", "b0")
			same(list(timers.Filter{Prefix: "b/"}), "b/", "b/1", "b/2", "b/Ä", "b/\U0010FFFF")
			same(list(timers.Filter{Prefix: "b/", Limit: 2}), "b/", "b/1")
			same(list(timers.Filter{Prefix: "b/", After: "b/1", Limit: 2}), "b/2", "b/Ä")
			same(list(timers.Filter{Prefix: "b/", Status: []workqueue.Status{workqueue.Failed, workqueue.Done}}), "b/2")
			same(list(timers.Filter{Prefix: "b/", State: []workqueue.State{workqueue.StateCancelled}}), "b/2")
			due := []workqueue.State{workqueue.StateReady, workqueue.StateScheduled}
			same(list(timers.Filter{Prefix: "b", State: due, After: "b/2"}), "b/Ä", "b/\U0010FFFF", "b0")
			same(list(timers.Filter{State: []workqueue.State{workqueue.StateFailed}}))
			same(list(timers.Filter{Prefix: "c"}))
			for _, bad := range []timers.Filter{{Limit: -1}, {Limit: timers.MaxPage + 1}, {Prefix: "\x00"},
				{After: "\xff"}, {State: []workqueue.State{"late"}}} {
				if _, err := f.timers.List(t.Context(), tx, bad); !errors.Is(err, workqueue.ErrInvalid) {
					t.Errorf("%+v: got %v, want ErrInvalid", bad, err)
				}
			}
		})
	}
}

// Headers that were written by hand are read as far as possible, in the same way as for handlers.
func TestHeadersByHandAreRead(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t", ScheduledAt: tomorrow})
	f.exec("UPDATE " + f.table + ` SET headers = '{"tenant": 7, "s": "x"}'`)
	if got, want := f.get("k").Headers, (map[string]string{"tenant": "7", "s": "x"}); !maps.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}
