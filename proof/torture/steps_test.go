//go:build unix

package torture

import (
	"slices"
	"testing"
)

// An announcer reaches a point with each statement that it sends. The point depends on what it has sent before.
func TestPointsOfAnAnnouncer(t *testing.T) {
	t.Parallel()
	const take, release = "SELECT CASE WHEN x THEN pg_try_advisory_lock(1) ELSE false END",
		"SELECT pg_advisory_unlock(1)"
	const who, notify = "SELECT x\n\t\t\tFROM pg_locks AS l", "SELECT pg_notify('a', '0')"
	const look, notes = "FROM unnest(a, b) WITH ORDINALITY AS l (after_due, after_id, ord)",
		"SELECT x FROM y AS n WHERE n.at > z"
	c := &stepping{}
	var got []string
	for _, sql := range []string{
		"SELECT set_config('a', 'b', false)", take, take, who, notify, look, notes, notify, who, "SELECT 1", release,
		who, look, notify, notify,
	} {
		got = append(got, c.point(sql))
	}
	want := []string{
		"", pointTakes, pointTakes, pointTakesOver, pointTakesOver, pointLooks, pointLooksNote, pointAnnounces,
		pointSamples, "",
		pointReleases, pointFades, pointFades, pointLast, pointLast,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the points are %q, want %q", got, want)
	}
}
