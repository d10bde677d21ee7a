// Package zones loads time zones for those who need the same few again and again, such as for a list of schedules. Each
// is read from a file, which takes longer than anything else of such a list.
package zones

import (
	"sync"
	"time"
)

const (
	// fresh is for how long zones are kept: a new time zone database takes effect without a restart.
	fresh = time.Minute
	// most is how many names are kept. The database has 600, but there are more ways to write them.
	most = 1000
)

// A cache holds the zones that were loaded since its begin.
type cache struct {
	mu    sync.Mutex
	begin time.Time
	zones map[string]*time.Location
}

var shared cache

// Load is [time.LoadLocation], which it asks once a minute for each zone.
func Load(name string) (*time.Location, error) { return shared.load(name, time.Now()) }

func (c *cache) load(name string, now time.Time) (*time.Location, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.begin) >= fresh || len(c.zones) >= most {
		c.begin, c.zones = now, map[string]*time.Location{}
	}
	if known := c.zones[name]; known != nil {
		return known, nil
	}
	loaded, err := time.LoadLocation(name)
	if err == nil {
		c.zones[name] = loaded
	}
	return loaded, err
}
