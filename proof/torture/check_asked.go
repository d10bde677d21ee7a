//go:build unix

package torture

import "strings"

// checkAsked compares what producers committed with what is in the tables.
func (w *walk) checkAsked() {
	h := w.h
	if w.countAsked(); len(h.Changes) == 0 {
		return
	}
	switch {
	case !w.inserted:
		w.broken("audit", "there are versions of a row whose insert is not on record")
	case len(h.Asked) == 0 && strings.HasPrefix(h.Changes[0].App, runPrefix):
		w.broken("I2", "there is a row that no producer was about to commit")
	case h.AskedBy != "" && h.AskedBy != h.Key:
		w.broken("I8", "it was to be ordered by the key %q, and is by %q", h.AskedBy, h.Key)
	}
	w.checkEnd()
}

// countAsked checks that exactly the transactions that committed wrote the row. Rows without a producer's record are
// those of schedules.
func (w *walk) countAsked() {
	committed, maybe := 0, 0
	for _, o := range w.h.Asked {
		switch o {
		case Committed:
			committed++
		case Maybe:
			maybe++
		}
	}
	switch {
	case committed > 0 && w.sets == 0:
		w.broken("I1", "it was committed, and there is no row")
	case committed > w.sets:
		w.broken("I1", "%d transactions that wrote it committed, and %d are on record", committed, w.sets)
	case len(w.h.Asked) > 0 && w.sets > committed+maybe:
		w.broken("I2", "%d transactions wrote it, and only %d can have committed", w.sets, committed+maybe)
	}
}

// checkEnd checks that after a run the row has ended and is still in its table.
func (w *walk) checkEnd() {
	switch {
	case !w.seen && !w.deleted:
		w.broken("audit", "the row is not in its table any more, and nobody deleted it")
	case w.now.Status >= done:
	case w.f.Stalled:
		w.broken("I10", "it was left with status %d although nothing moved any more", w.now.Status)
	default:
		w.broken("I1", "it was left with status %d", w.now.Status)
	}
}
