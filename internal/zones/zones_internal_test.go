package zones

import (
	"fmt"
	"testing"
	"time"
)

// A zone is loaded once a minute, and however many are asked for, a bounded number is kept.
func TestZonesAreKeptForAMinute(t *testing.T) {
	t.Parallel()
	var c cache
	load := func(name string, at time.Time) *time.Location {
		t.Helper()
		zone, err := c.load(name, at)
		if err != nil || zone.String() != name {
			t.Fatalf("%s is %v, %v", name, zone, err)
		}
		return zone
	}
	begin := time.Now()
	first := load("Europe/Zagreb", begin)
	if load("Europe/Zagreb", begin.Add(fresh-1)) != first {
		t.Error("the zone was loaded twice")
	}
	if load("Europe/Zagreb", begin.Add(fresh)) == first {
		t.Error("the zone was not loaded again")
	}
	for range 2 {
		if _, err := c.load("Europe/Nowhere", begin); err == nil {
			t.Error("a zone that does not exist was loaded")
		}
	}
	for i := range 2 * most {
		c.zones[fmt.Sprint(i)] = time.UTC
		load("Europe/Berlin", begin.Add(fresh))
		if len(c.zones) > most {
			t.Fatalf("%d zones are kept", len(c.zones))
		}
	}
}
