package workqueue

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

func rowsDue(due ...time.Time) []*claimedRow {
	rows := make([]*claimedRow, len(due))
	for i, d := range due {
		rows[i] = new(claimedRow)
		rows[i].DueAt, rows[i].ID = d, uuid.New()
	}
	return rows
}

// claimerAt makes a claimer of one lane, with its cursor at the given time.
func claimerAt(p position) *claimer {
	return &claimer{clock: new(dbClock), lanes: []*lane{{cursor: p}}}
}

// claimed simulates a claim that brought the rows.
func (c *claimer) claimed(limit int, took time.Duration, rows []*claimedRow) (after position) {
	lanes, swept := c.begin(time.Now(), c.lanes)
	c.advance(c.lanes, rows, swept, len(rows) == limit, took)
	return lanes[0].after
}

func (c *claimer) cursor() position { return c.lanes[0].cursor }

func (c *claimer) at(due time.Time) bool { return c.cursor().due.Equal(due) }

var noon = time.Date(2025, 1, 1, 12, 0, 0, 0, time.UTC)

func TestCursorGoesOnAfterTheLastRow(t *testing.T) {
	t.Parallel()
	c := claimerAt(position{})
	if after := c.claimed(2, 0, rowsDue(noon, noon.Add(time.Second))); !after.isStart() {
		t.Errorf("the first claim started after %v", after)
	}
	c.nextSweep = time.Now().Add(time.Hour)
	if after := c.claimed(2, 0, nil); !after.due.Equal(noon.Add(time.Second)) {
		t.Errorf("the second claim started after %v", after)
	}
	if !c.at(noon.Add(time.Second)) {
		t.Errorf("a claim of nothing moved the cursor to %v", c.cursor())
	}
}

func TestCursorMovesBackToWhatWasNotifiedOf(t *testing.T) {
	t.Parallel()
	c := claimerAt(position{due: noon, id: uuid.New()})
	c.nextSweep = time.Now().Add(time.Hour)
	c.rewind(noon.Add(time.Minute))
	if !c.at(noon) {
		t.Errorf("a notification of later rows moved the cursor to %v", c.cursor())
	}
	c.rewind(noon.Add(-time.Minute))
	c.rewind(noon.Add(-time.Second))
	if !c.at(noon.Add(-time.Minute)) || c.cursor().id != uuid.Nil {
		t.Errorf("the cursor is at %v, want the earliest notified", c.cursor())
	}
}

// A claim under way may have read its snapshot before the notified rows were there.
func TestCursorIsNotMovedPastANotificationDuringAClaim(t *testing.T) {
	t.Parallel()
	c := claimerAt(position{due: noon})
	c.nextSweep = time.Now().Add(time.Hour)
	c.begin(time.Now(), c.lanes)
	c.rewind(noon.Add(-time.Minute))
	c.advance(c.lanes, rowsDue(noon.Add(time.Minute)), false, false, 0)
	if !c.at(noon.Add(-time.Minute)) {
		t.Errorf("the cursor is at %v, past the rows that were notified during the claim", c.cursor())
	}
	c.claimed(10, 0, rowsDue(noon.Add(2*time.Minute)))
	if !c.at(noon.Add(2 * time.Minute)) {
		t.Errorf("an old notification still holds the cursor at %v", c.cursor())
	}
}

// A claimer that may have passed over a row says when it will look again. One that has not does not say so: otherwise
// an idle worker would never rest.
func TestCursorSweepsOnlyWhatItMayHavePassedOver(t *testing.T) {
	t.Parallel()
	c := claimerAt(position{due: noon})
	c.claimed(10, 0, nil)
	if in := c.sweepDue(); in >= 0 {
		t.Errorf("after a complete sweep another is due in %v", in)
	}
	c.nextSweep = time.Now().Add(time.Hour)
	c.claimed(10, 0, nil)
	if in := c.sweepDue(); in < 0 {
		t.Error("after a claim behind the cursor no sweep is due")
	}
	c.beginAtStart()
	if in := c.sweepDue(); in != 0 {
		t.Errorf("a sweep that was asked for is due in %v", in)
	}
	c.claimed(10, 0, rowsDue(noon))
	if in := c.sweepDue(); in >= 0 {
		t.Errorf("after the sweep that was asked for another is due in %v", in)
	}
	c.beginAtStart()
	c.claimed(1, 0, rowsDue(noon))
	if in := c.sweepDue(); in < 0 {
		t.Error("after a sweep that its limit ended no sweep is due")
	}
}

// The time between sweeps follows their usual cost. A single sweep that was slow by accident does not count: one slow
// connect would keep late rows waiting for a minute.
func TestCursorSweepIntervalFollowsTheCost(t *testing.T) {
	t.Parallel()
	c := claimerAt(position{})
	sweep := func(took time.Duration) time.Duration {
		c.beginAtStart()
		c.claimed(10, took, nil)
		return c.sweepEvery
	}
	if every := sweep(5 * time.Second); every > time.Second {
		t.Errorf("one slow sweep, the first, and the next comes after %v", every)
	}
	sweep(time.Millisecond)
	if every := sweep(5 * time.Second); every > time.Second {
		t.Errorf("one slow sweep among quick ones, and the next comes after %v", every)
	}
	sweep(500 * time.Millisecond)
	if every := sweep(500 * time.Millisecond); every < 10*time.Second {
		t.Errorf("sweeps of 500 ms come every %v", every)
	}
	sweep(time.Hour)
	if every := sweep(time.Hour); every != maxSweepInterval {
		t.Errorf("sweeps of an hour come every %v", every)
	}
	sweep(0)
	if every := sweep(0); every != minSweepInterval {
		t.Errorf("sweeps that cost nothing come every %v", every)
	}
}

// The rows of a claim move only the cursor of their own lane: another lane may have earlier rows.
func TestEachLaneHasItsCursor(t *testing.T) {
	t.Parallel()
	c := claimerAt(position{})
	c.lanes = append(c.lanes, &lane{})
	rows := rowsDue(noon, noon.Add(time.Second))
	rows[1].lane = 1
	c.claimed(10, 0, rows)
	for i, want := range []time.Time{noon, noon.Add(time.Second)} {
		if got := c.lanes[i].cursor.due; !got.Equal(want) {
			t.Errorf("the cursor of lane %d is at %v, want %v", i, got, want)
		}
	}
	c.rewind(noon.Add(-time.Second))
	for i, l := range c.lanes {
		if !l.cursor.due.Equal(noon.Add(-time.Second)) {
			t.Errorf("a notification, which names no lane, left the cursor of lane %d at %v", i, l.cursor.due)
		}
	}
}
