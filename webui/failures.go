package webui

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	maxFailures   = 10              // wrong passwords in quick succession from one address
	forgive       = 6 * time.Second // after which one of them is forgotten
	maxRemembered = 10_000          // addresses
)

// failures counts wrong passwords by the address that they came from.
type failures struct {
	mu  sync.Mutex
	all map[string]failure
}

// A failure is how many there are, as of a time.
type failure struct {
	n  float64
	at time.Time
}

// left is how many are not forgotten yet.
func (f failure) left(now time.Time) float64 {
	return max(f.n-now.Sub(f.at).Seconds()/forgive.Seconds(), 0)
}

// wait returns how long an address has to wait for its next attempt.
func (f *failures) wait(from string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if over := f.all[from].left(now) - maxFailures + 1; over > 0 {
		return time.Duration(over * float64(forgive))
	}
	return 0
}

func (f *failures) add(from string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) >= maxRemembered {
		f.forget(now)
	}
	f.all[from] = failure{f.all[from].left(now) + 1, now}
}

// forget makes room: of addresses without failures first, and then of any.
func (f *failures) forget(now time.Time) {
	for from, one := range f.all {
		if one.left(now) == 0 {
			delete(f.all, from)
		}
	}
	for from := range f.all {
		if len(f.all) < maxRemembered {
			return
		}
		delete(f.all, from)
	}
}

// addressOf is where a request comes from. A network of IPv6 that belongs to one user counts as one address. It does
// not believe headers, which the sender writes: behind a proxy, all users are one address.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	address, err := netip.ParseAddr(host)
	if err != nil || !address.Is6() || address.Is4In6() {
		return host
	}
	network, _ := address.WithZone("").Prefix(64) // cannot fail: an IPv6 address has 128 bits
	return network.String()
}
