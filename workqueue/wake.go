package workqueue

import (
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue/internal/announce"
)

// received passes a notification on to the tables of its channel.
func (l *listener) received(n *pgconn.Notification) {
	if n.Payload == upkeepPayload {
		l.reconsiderAll()
		return
	}
	for _, t := range l.list() {
		if t.table.spec.channel() == n.Channel {
			t.notified(n.PID, n.Payload)
		}
	}
}

// cancelPayload announces that a running row was cancelled.
const cancelPayload = "cancel"

// notified acts on the payload of a notification. Without a prefix, it is the earliest due time of the rows that were
// written, in microseconds.
func (t *tableWork) notified(session uint32, payload string) {
	if where, ok := strings.CutPrefix(payload, announce.PayloadFront); ok {
		t.heardFronts(where)
		return
	}
	if what, ok := strings.CutPrefix(payload, announce.PayloadExternal); ok {
		t.heardExternal(what)
		return
	}
	at, isFold := strings.CutPrefix(payload, announce.PayloadFold)
	if !isFold { // nor the above: an announcer does not replace them
		t.announcer.heard(session, time.Now())
	}
	if payload == cancelPayload {
		for _, w := range t.listening() {
			w.cancelsSeen.Add(1)
			w.renewNow()
		}
		return
	}
	if payload == topicPayload {
		for _, w := range t.listening() {
			w.claimer.topics.changed()
			w.poll.Wake()
		}
		return
	}
	at, isNote := strings.CutPrefix(at, announce.PayloadNote)
	micros, err := strconv.ParseInt(at, 10, 64)
	switch {
	case err != nil || micros < 0: // any login may send anything; no row is due before 1970
		t.missed()
	case isNote:
		if t.folder != nil {
			t.folder.announced(time.UnixMicro(micros))
		}
	case isFold && t.folder != nil && !t.folder.isNews(foldMark{time.UnixMicro(micros), session}):
	default:
		for _, w := range t.listening() {
			w.claimer.rewind(time.UnixMicro(micros))
		}
		t.wakeConcerned()
	}
}

// heardExternal tells every External. One of those that have messages to hand out is told that it is the first, and so
// are those before it whose worker has a ClaimCooldown: the others need not wait for that.
func (t *tableWork) heardExternal(what string) {
	first := true
	for _, w := range t.listening() {
		if hear := w.external.Load(); hear != nil {
			isFirst := first && w.Waits() == nil
			hear.heard(what, isFirst)
			first = first && (!isFirst || w.options.ClaimCooldown > 0)
		}
	}
}

// heardFronts moves claims back to where a fold has put the rows that it released. The fold's next notification wakes
// the workers.
func (t *tableWork) heardFronts(text string) {
	at, err := readFronts(text)
	if err != nil {
		t.missed() // any login may send anything
		return
	}
	at.leadBack(t.listening())
}

// wakeConcerned is called after a notification. It wakes the listening workers that may have something to claim, and
// never blocks.
func (t *tableWork) wakeConcerned() {
	workers := t.listening()
	if len(workers) < sharedLookFrom {
		wakeAll(workers)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lookAgain = true
	if !t.looking {
		t.looking = true
		t.looks.Go(t.lookForAll)
	}
}

func wakeAll(workers []*Worker) {
	for _, w := range workers {
		w.poll.Wake()
	}
}

// missed looks for whatever may have been announced while this process did not listen.
func (t *tableWork) missed() {
	for _, w := range t.listening() {
		t.missedBy(w)
	}
}

// missedBy looks for whatever may have been announced while this process did not listen.
func (t *tableWork) missedBy(w *Worker) {
	w.claimer.beginAtStart()
	w.claimer.topics.changed()
	if t.folder != nil {
		t.folder.missed()
	}
	w.poll.Wake()
	if hear := w.external.Load(); hear != nil {
		hear.missed()
	}
	w.cancelsSeen.Add(1)
	w.renewNow()
}

// renewNow asks for a renewal of all leases at once, because a renewal reports which rows were cancelled. It never
// blocks.
func (w *Worker) renewNow() {
	select {
	case w.cancels <- struct{}{}:
	default:
	}
}
