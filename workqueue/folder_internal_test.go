package workqueue

import "testing"

// A folder waits for settles that are about to end, and not for one that does not.
func TestAFolderWaitsForNoSettleThatHangs(t *testing.T) {
	t.Parallel()
	f := newFolder(&tableWork{table: &Table{}})
	hangs, ends := f.settles(), f.settles()
	ends()
	f.gather()
	if n := f.underway.Load(); n != 1 {
		t.Errorf("%d settles are under way, want the one that hangs", n)
	}
	hangs()
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
