package workqueue

import (
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/workqueue/dispatch"
)

// twoLanes returns a claimer whose cursors are at noon, long after its last sweep.
func twoLanes() *claimer {
	at := position{due: noon}
	return &claimer{clock: new(dbClock), nextSweep: time.Now().Add(time.Hour),
		lanes: []*lane{{label: "a", cursor: at}, {label: "b", cursor: at}}}
}

// A full claim has left rows in the lane of its last row. It may have left rows in the lanes after that one, and has
// left none in the lanes before it.
func TestFrontsAreWhereClaimsAre(t *testing.T) {
	t.Parallel()
	const second = time.Second
	began := noon.Add(time.Minute)
	for name, c := range map[string]struct {
		lanes []int // of the rows, due a second apart
		full  bool
		a, b  time.Time
	}{
		"nothing was there": {nil, false, began, began},
		"all was taken":     {[]int{0, 1}, false, began, began},
		"the first is full": {[]int{0, 0}, true, noon.Add(second + time.Microsecond), laneStart},
		"the last is full":  {[]int{0, 1}, true, began, noon.Add(second + time.Microsecond)},
	} {
		lanes := twoLanes().lanes
		lanes[1].front.due = laneStart
		rows := rowsDue(noon, noon.Add(second))[:len(c.lanes)]
		for i := range rows {
			rows[i].lane = c.lanes[i]
		}
		moveFronts(lanes, rows, c.full, began)
		if a, b := lanes[0].front.due, lanes[1].front.due; !a.Equal(c.a) || !b.Equal(c.b) {
			t.Errorf("%s: fronts %v and %v, want %v and %v", name, a, b, c.a, c.b)
		}
	}
}

// If the clock is behind, a claim may seem to have begun before its rows were due.
func TestAFrontIsBeyondItsCursor(t *testing.T) {
	t.Parallel()
	lanes := twoLanes().lanes
	moveFronts(lanes, nil, false, noon.Add(-time.Hour))
	if due := lanes[0].front.due; !due.Equal(noon.Add(time.Microsecond)) {
		t.Errorf("the front is at %v, the cursor at %v", due, noon)
	}
}

func TestFrontsOfAProcess(t *testing.T) {
	t.Parallel()
	now, many := time.Now(), &claimer{}
	for range 200 {
		many.lanes = append(many.lanes, &lane{label: strings.Repeat("x", 1+len(many.lanes)),
			front: front{noon.Add(2 * time.Hour), now}})
	}
	one, other := twoLanes(), twoLanes()
	one.lanes[0].front, one.lanes[1].front = front{noon, now}, front{noon, now.Add(-2 * frontAge)}
	other.lanes[0].front, other.lanes[1].label = front{noon.Add(time.Hour), now}, ""
	other.lanes[1].front = front{noon, now}

	work := &tableWork{serves: []*Worker{{engine: &engine{claimer: one}}, {engine: &engine{claimer: other}}}}
	if got, want := work.fronts().json(), `{"a":"2025-01-01T13:00:00Z"}`; got != want {
		t.Errorf("the fronts are %s, want the further one, none that is old, and none of a lane without label: %s",
			got, want)
	}
	work.serves = append(work.serves, &Worker{engine: &engine{claimer: many}})
	text := work.fronts().json()
	if n := len(text); n < maxFronts/2 || n > maxFronts {
		t.Errorf("the fronts of 200 lanes are %d bytes", n)
	}
	if back, err := readFronts(text); err != nil || !back["a"].Equal(noon.Add(time.Hour)) {
		t.Errorf("read again they are %v, %v: the oldest do not stay where there is no room for all", back, err)
	}
	if got := fronts(nil).json(); got != "{}" {
		t.Errorf("no fronts are %s", got)
	}
}

// A claim that the rule of its lanes refused has looked at nothing.
func TestARefusedClaimMovesNoFront(t *testing.T) {
	t.Parallel()
	c := twoLanes()
	c.unswept, c.nextSweep = true, time.Now()
	for _, l := range c.lanes {
		l.front.due = noon
	}
	c.stay()
	for _, l := range c.lanes {
		if !l.front.due.Equal(noon) || time.Since(l.front.at) > time.Minute || !l.cursor.due.Equal(noon) {
			t.Errorf("the lane is at %+v, its cursor at %v", l.front, l.cursor.due)
		}
	}
	if w := c.withOwn(nil); w == nil {
		t.Error("what the cursor has passed over is forgotten")
	}
	if c.refused = true; c.withOwn(nil) != nil {
		t.Error("it wakes up for a sweep that would be refused")
	}
}

// If two folds gave rows the same due time, claims would take them in the order of their ids. A claim between the folds
// may have passed some rows of the second.
func TestTwoFoldsPutNothingAtTheSameTime(t *testing.T) {
	t.Parallel()
	at := fronts{"same": noon, "earlier": noon, "later": noon.Add(time.Second), "new": noon}
	at.moveBeyond(fronts{"same": noon, "earlier": noon.Add(time.Minute), "later": noon, "gone": noon})
	for label, want := range map[string]time.Time{
		"same": noon.Add(time.Microsecond), "earlier": noon.Add(time.Minute + time.Microsecond),
		"later": noon.Add(time.Second), "new": noon,
	} {
		if got := at[label]; !got.Equal(want) {
			t.Errorf("%s: %v, want %v", label, got, want)
		}
	}
	if len(at) != 4 {
		t.Errorf("fronts %v, of which one is of no lane any more", at)
	}
}

// The rows that another process has put at its front may lie behind the cursor of their lane in this process. The
// cursor moves back to them, and a claim under way does not move it past them again. Cursors of other lanes stay.
func TestAFrontThatIsHeardOfLeadsItsLaneBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		payload string
		back    bool
		sweeps  bool
	}{
		"a lane's":     {`front:{"b":"2025-01-01T11:00:00.000001Z", "c":"1970-01-01T00:00:00Z"}`, true, false},
		"another's":    {`front:{"c":"2025-01-01T11:00:00Z"}`, false, false},
		"anybody's":    {"front:ly", false, true},
		"of no fronts": {"front:{}", false, false},
	} {
		claims := twoLanes()
		claims.begin(time.Now(), claims.lanes)
		poll := dispatch.NewPoll(nil, dispatch.PollOptions{})
		w := &Worker{engine: &engine{claimer: claims, poll: poll, cancels: make(chan struct{}, 1)}}
		announcer := newAnnouncer(nil, nil)
		(&tableWork{hearing: []*Worker{w}, table: &Table{}, announcer: announcer}).notified(1, c.payload)
		if announcer.count > 0 {
			t.Errorf("%s would wake announcers", name)
		}
		rows := rowsDue(noon.Add(time.Minute), noon.Add(time.Minute))
		rows[1].lane = 1
		claims.advance(claims.lanes, rows, false, false, 0)
		a, b, later := claims.lanes[0].cursor.due, claims.lanes[1].cursor.due, noon.Add(time.Minute)
		if !a.Equal(later) || b.Equal(later) == c.back {
			t.Errorf("%s: the cursors are at %v and %v", name, a, b)
		}
		if sweeps := claims.nextSweep.IsZero(); sweeps != c.sweeps {
			t.Errorf("%s: looks at everything: %v, want %v", name, sweeps, c.sweeps)
		}
	}
}
