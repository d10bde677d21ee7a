package workqueue

import (
	"testing"
	"time"
)

// A folder waits for settles that are about to end, and gives up waiting for one that does not end.
func TestAFolderWaitsForNoSettleThatHangs(t *testing.T) {
	t.Parallel()
	f := newFolder(&tableWork{table: &Table{}})
	hangs, ends := f.settleBegins(), f.settleBegins()
	f.settleEnded(ends)
	f.gather()
	if n := f.underway.Load(); n != 1 {
		t.Errorf("%d settles are under way, want the one that hangs", n)
	}
	f.settleEnded(hangs)
	f.gather()
	if f.settling.IsZero() || f.underway.Load() != 0 {
		t.Errorf("both have ended: since %v, %d under way", f.settling, f.underway.Load())
	}
	select {
	case <-f.wake:
	default:
		t.Error("nobody has asked for the notes of a settle that has ended")
	}
}

// Each fold is reported by its reply and by its notification, in either order. It is news only once.
func TestAFoldIsNewsOnce(t *testing.T) {
	t.Parallel()
	f := newFolder(&tableWork{table: &Table{}})
	began := time.Now()
	first, other := foldMark{began, 1}, foldMark{began, 2}
	for i, c := range []struct {
		by   foldMark
		news bool
	}{
		{first, true}, {first, false},
		{other, true}, {foldMark{began.Round(0).UTC(), 2}, false},
		{foldMark{began.Add(time.Microsecond), 2}, true},
	} {
		if news := f.isNews(c.by); news != c.news {
			t.Errorf("report %d: news %v, want %v", i, news, c.news)
		}
	}
}
