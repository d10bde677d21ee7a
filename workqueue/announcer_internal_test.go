package workqueue

import (
	"testing"
	"time"
)

// An announcer wakes up when several sessions have notified often within a short time.
func TestWhatWakesAnAnnouncer(t *testing.T) {
	t.Parallel()
	const enough = int(announceAbove*announceWindow/time.Second) + 1
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name     string
		n        int
		sessions uint32
		every    time.Duration
		wakes    bool
	}{
		{"often enough", enough, 2, time.Millisecond, true},
		{"not often enough", enough - 1, 2, time.Millisecond, false},
		{"often enough, by one session", 10 * enough, 1, time.Millisecond, false},
		{"just quick enough", enough, 3, announceWindow / time.Duration(enough), true},
		{"too slow", 10 * enough, 3, 2 * announceWindow / time.Duration(enough), false},
	} {
		a := newAnnouncer(nil, nil)
		for i := range c.n {
			a.heard(1+uint32(i)%c.sessions, start.Add(time.Duration(i)*c.every))
		}
		if wakes := len(a.busy) > 0; wakes != c.wakes {
			t.Errorf("%s: wakes up %v, want %v", c.name, wakes, c.wakes)
		}
	}
}

// A look continues after the last row that was due. A row that stays ready behind that place is announced now and then,
// and not with every look.
func TestWhatALookFinds(t *testing.T) {
	t.Parallel()
	at := func(ms int) position {
		return position{due: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)}
	}
	ready := func(ms int) *int64 { micros := at(ms).due.UnixMicro(); return &micros }
	l := &announcedLane{cursor: at(0)}
	look := func(what string, first *int64, last position, wantFresh, wantAnnounce bool, wantCursor position) {
		t.Helper()
		fresh, announce := l.found(first, last)
		if fresh != wantFresh || announce != wantAnnounce || !l.cursor.due.Equal(wantCursor.due) {
			t.Errorf("%s: fresh %v, announced %v, cursor %v; want %v, %v, %v", what, fresh, announce, l.cursor.due,
				wantFresh, wantAnnounce, wantCursor.due)
		}
	}
	look("rows that are claimed", nil, at(5), false, false, at(5))
	look("one that is ready", ready(7), at(9), true, true, at(9))
	look("one before that place", ready(3), at(8), false, true, at(9))
	look("the same one", ready(3), at(9), false, false, at(9))
	look("another one", ready(4), at(9), false, true, at(9))
	l.again = time.Now()
	look("the same one later", ready(4), at(9), false, true, at(9))
}

// Now and then a look begins as far back as a silent transaction that was open then may have written. Other looks begin
// at the cursor.
func TestWhereALookBegins(t *testing.T) {
	t.Parallel()
	now := time.Now()
	d := &announcing{horizon: now}
	for _, c := range []struct {
		name   string
		cursor time.Time
		back   bool
		want   time.Time
	}{
		{"at the cursor", now, false, now},
		{"further back", now, true, now.Add(-lookBack)},
		{"at a cursor that is further back", now.Add(-2 * lookBack), true, now.Add(-2 * lookBack)},
	} {
		if got := d.after(&announcedLane{cursor: position{due: c.cursor}}, c.back); !got.due.Equal(c.want) {
			t.Errorf("%s: from %v, want %v", c.name, got.due, c.want)
		}
	}
}

// However long a look takes, the server hears of the announcer before it ends the session as idle.
func TestHowLongAnAnnouncerRests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ took, want time.Duration }{
		{0, lookEvery},
		{lookEvery / 2, lookEvery},
		{10 * lookEvery, lookRest * 10 * lookEvery},
		{time.Second, longestLookRest},
	} {
		if rest := restAfter(c.took, lookEvery); rest != c.want {
			t.Errorf("rests for %v after a look of %v, want %v", rest, c.took, c.want)
		}
	}
	for _, s := range announcerSettings {
		if s.Name != "idle_session_timeout" {
			continue
		}
		if idle, err := time.ParseDuration(s.Value); err != nil || idle < 3*longestLookRest {
			t.Errorf("%s is %s, and a rest up to %v", s.Name, s.Value, longestLookRest)
		}
	}
}
