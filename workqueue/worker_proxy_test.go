package workqueue_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A proxy stands between a pool and its server and fails on demand. It copies through TCP, so that deadlines and closed
// connections behave as on a real network.
type proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	gates  []*gate // the last is that of new connections
	refuse bool
	dial   func(context.Context) (net.Conn, error)
}

// A gate lets traffic through while it is open.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) pass() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		if !open {
			g.open = make(chan struct{})
		}
	default:
		if open {
			close(g.open)
		}
	}
}

func newProxy(t testing.TB) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, open: map[net.Conn]bool{}, gates: []*gate{newGate()}}
	p.running.Go(p.serve)
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		p.thaw()
		p.running.Wait()
	})
	return p
}

// through sends a pool's connections through the proxy.
func (p *proxy) through(c *pgxpool.Config) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		p.mu.Lock()
		if p.dial == nil { // later configurations may name the proxy: a cancel request goes where its connection went
			p.dial = func(ctx context.Context) (net.Conn, error) { return dial(ctx, network, address) }
		}
		p.mu.Unlock()
		var d net.Dialer
		return d.DialContext(ctx, "tcp", p.listener.Addr().String())
	}
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.join(client)
	}
}

// join connects a client to the server and copies between them.
func (p *proxy) join(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	server, err := net.Conn(nil), net.ErrClosed
	if !p.refuse {
		server, err = p.dial(context.Background())
	}
	if err != nil {
		client.Close()
		return
	}
	p.open[client], p.open[server] = true, true
	g := p.gates[len(p.gates)-1]
	p.running.Go(func() { p.copy(client, server, g) })
	p.running.Go(func() { p.copy(server, client, g) })
}

func (p *proxy) copy(to, from net.Conn, g *gate) {
	defer func() {
		to.Close()
		from.Close()
		p.mu.Lock()
		delete(p.open, from)
		p.mu.Unlock()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		g.pass()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// freeze swallows all traffic silently, like a peer that has lost its power.
func (p *proxy) freeze() { p.each(func(g *gate) { g.set(false) }) }

// thaw lets traffic flow again.
func (p *proxy) thaw() { p.each(func(g *gate) { g.set(true) }) }

func (p *proxy) each(f func(*gate)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.gates {
		f(g)
	}
}

// abandon silences the open connections for good; new ones work.
func (p *proxy) abandon() {
	p.freeze()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gates = append(p.gates, newGate())
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
}

// down closes every connection and accepts none until up.
func (p *proxy) down() {
	p.setRefuse(true)
	p.cut()
}

func (p *proxy) up() { p.setRefuse(false) }

func (p *proxy) setRefuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}
