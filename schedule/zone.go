package schedule

import (
	"strings"
	"time"

	"github.com/txwork/txwork/internal/zones"
)

// maxOffset is the largest difference between a zone and UTC that RFC 8536 allows: 26 hours.
const maxOffset = 26 * time.Hour

// asWall returns the wall time that a zone's clock shows at a time. Wall times are represented as if they were UTC.
func asWall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// A stretch is a span of time in which a zone has one offset: from start, before end.
type stretch struct {
	start, end time.Time // zero: without a beginning, without an end
	offset     time.Duration
}

func stretchAt(t time.Time) stretch {
	start, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		end = end.Add(24 * time.Hour) // package time ends every year after 365 days, even leap years
	}
	_, offset := t.Zone()
	return stretch{start, end, time.Duration(offset) * time.Second}
}

// wall returns what the clock of this stretch shows at a time. At the end of the stretch, it is the wall time that the
// clock would have shown next.
func (s stretch) wall(t time.Time) time.Time { return t.UTC().Add(s.offset) }

// reached returns the wall time up to which the clock had come when the stretch began: all earlier wall times had been
// shown or skipped. If the clock was set back, it is later than the first wall time of the stretch.
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

// loadZone refuses names that differ between machines, and zones that count leap seconds, which Go's clock does not.
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
	zone, err := zones.Load(name)
	if err != nil {
		return nil, refuse(expr, "zone", "%q is not in the time zone database; it takes names such as Europe/Berlin",
			name)
	}
	return zone, nil
}

const maxZone = 255
