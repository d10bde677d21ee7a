//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// proxied is embedded by faults of the network, which put a proxy between one worker and the server.
type proxied struct {
	private
	proxy *toxiproxy.Proxy
}

// open starts the proxy to the current primary and returns its URL.
func (p *proxied) open(l *lab) (string, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p.proxy = toxiproxy.NewProxy(server, "torture", "127.0.0.1:0", l.address)
	if err := p.proxy.Start(); err != nil {
		return "", skip("no proxy can be started: %v", err)
	}
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: p.proxy.Listen, Path: "/postgres",
		RawQuery: "sslmode=disable&connect_timeout=2"}
	return u.String(), nil
}

func (p *proxied) poison(name, kind, stream string, share float64) error {
	_, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(
		fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"toxicity":%g,"attributes":{}}`, name, kind, stream, share)))
	return err
}

// through makes a worker connect through the proxy while do runs.
func (p *proxied) through(ctx context.Context, l *lab, random *rand.Rand, do func(url string) error) (app string,
	err error) {
	address, err := p.open(l)
	if err != nil {
		return "", err
	}
	defer p.proxy.Stop()
	return l.as(ctx, random, func(config *setup) { config.URL = address }, nil, func() error {
		defer p.proxy.Toxics.ResetToxics(ctx)
		return do(address)
	})
}

// episode is how long a fault lasts that is a state rather than a single event.
const episode = 3 * time.Second

// blackHole drops all traffic in both directions without closing a connection: claims, settles, renewals and the
// listener's session. It lasts longer than the lease.
type blackHole struct{ proxied }

func (b *blackHole) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	return b.through(ctx, l, random, func(string) error {
		time.Sleep(episode / 2)
		l.hit = time.Now()
		for _, stream := range []string{"upstream", "downstream"} {
			if err := b.poison(stream, "timeout", stream, 1); err != nil {
				return err
			}
		}
		time.Sleep(lease + episode/2)
		b.proxy.Toxics.ResetToxics(ctx)
		time.Sleep(episode / 2)
		return nil
	})
}
