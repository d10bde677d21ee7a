//go:build unix

package torture

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// lostReply loses replies to COMMIT: the server has committed, and the client cannot know. Either a proxy closes the
// connection when the reply passes, or the client's own connection fails after it has read the reply. Producers use
// such connections too.
type lostReply struct{ proxied }

const (
	cutCommits = "cut_commits"
	cutOneIn   = 20
)

var (
	commitReply = []byte("COMMIT\x00")
	cuts        atomic.Int64 // in this process
)

func cut(reply []byte) bool {
	hit := bytes.Contains(reply, commitReply) && rand.IntN(cutOneIn) == 0
	if hit {
		cuts.Add(1)
	}
	return hit
}

func (f *lostReply) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	before := cuts.Load()
	by, do := "a proxy", f.byProxy
	if random.IntN(2) == 0 {
		by, do = "the client", f.byClient
	}
	app, err := do(ctx, l, random)
	if err == nil && cuts.Load() == before {
		return "", skip("no reply to a COMMIT came that could be lost")
	}
	return fmt.Sprintf("%d replies to a producer and others to %s, by %s", cuts.Load()-before, app, by), err
}

func (f *lostReply) byProxy(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	toxics.Register(cutCommits, new(commitCutter))
	return f.through(ctx, l, random, func(address string) error {
		l.hit = time.Now()
		if err := f.poison(cutCommits, cutCommits, "downstream", 1); err != nil {
			return err
		}
		return l.produceOver(ctx, address, nil, random.Uint64())
	})
}

func (f *lostReply) byClient(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	return l.as(ctx, random, func(config *setup) { config.LoseReplies = true }, nil, func() error {
		l.hit = time.Now()
		return l.produceOver(ctx, l.url, loseReplies, random.Uint64())
	})
}

// A commitCutter is a toxic that closes the connection at the reply to COMMIT.
type commitCutter struct{}

// Pipe implements toxics.Toxic.
func (*commitCutter) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil || cut(c.Data) {
				stub.Close()
				return
			}
			stub.Output <- c
		}
	}
}

// A forgetful connection fails after it has read the reply, as if there had been none.
type forgetful struct{ net.Conn }

// Read implements net.Conn.
func (f forgetful) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if err == nil && cut(b[:n]) {
		f.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// loseReplies makes a pool's connections forgetful.
func loseReplies(config *pgxpool.Config) {
	config.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return forgetful{conn}, nil
	}
}

// produceOver runs an extra producer for one episode, over another connection to the server.
func (l *lab) produceOver(ctx context.Context, address string, change func(*pgxpool.Config), seed uint64) error {
	pool, err := l.openURL(ctx, address, "producers", 4, nil, change)
	if err != nil {
		return err
	}
	defer pool.Close()
	p := newProducer(l.shop, pool, seed)
	p.sql = !l.options.GoOnly && seed%2 == 0
	for end := time.Now().Add(episode); time.Now().Before(end); time.Sleep(work) {
		p.produce()
	}
	return nil
}
