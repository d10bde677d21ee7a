package schedule

import (
	"strings"
	"time"
)

// maxOffset is more than any zone is ahead of or behind UTC: RFC 8536 allows no more than 26 hours.
const maxOffset = 26 * time.Hour

// A wall time is what a zone's clock shows, kept as if it were UTC. asWall reads it off a time in its zone.
func asWall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// A stretch is a span of time in which a zone has one offset: from start, before end.
type stretch struct {
	start, end time.Time // zero: since ever, for ever
	offset     time.Duration
}

func stretchAt(t time.Time) stretch {
	start, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		end = end.Add(24 * time.Hour) // package time ends every year after 365 days, leap years too
	}
	_, offset := t.Zone()
	return stretch{start, end, time.Duration(offset) * time.Second}
}

// wall returns what the clock of this stretch shows at a time; at its end, what it was about to show.
func (s stretch) wall(t time.Time) time.Time { return t.UTC().Add(s.offset) }

// reached returns how far the clock had got when the stretch began: all wall times before it had been shown
// or jumped over. Where the clock was set back it is later than what the stretch begins with.
func (s stretch) reached() time.Time {
	var furthest time.Time
	for end := s.start; !end.IsZero() && s.start.Sub(end) < 2*maxOffset; {
		before := stretchAt(end.Add(-1))
		if wall := before.wall(end); wall.After(furthest) {
			furthest = wall
		}
		end = before.start
	}
	return furthest
}

// loadZone refuses names that mean something else on every machine, and the zones of a clock with leap seconds, which
// Go's is not.
func loadZone(expr, name string) (*time.Location, error) {
	switch {
	case name == "":
		return time.UTC, nil
	case len(name) > maxZone:
		return nil, refuse(expr, "zone", "is longer than %d bytes", maxZone)
	case name == "Local" || name == "localtime" || name == "posixrules":
		return nil, refuse(expr, "zone", "%q depends on the machine; name the zone, such as Europe/Berlin", name)
	case strings.HasPrefix(name, "right/"):
		return nil, refuse(expr, "zone", "%q counts leap seconds; leave out \"right/\"", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, refuse(expr, "zone", "%q is not in the time zone database; it takes names such as Europe/Berlin",
			name)
	}
	return zone, nil
}

const maxZone = 255
