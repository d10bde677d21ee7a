//go:build unix

package torture

import (
	"context"
	"net"
	"regexp"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/frontend"
)

// freezable are statements of a worker, by the name of the operation that they belong to.
var freezable = map[string]*regexp.Regexp{
	"a claim":               regexp.MustCompile(`attempts = t\.attempts \+ 1|a\.admitted|_fetch\(`),
	"a settle":              regexp.MustCompile(`SET status = 2,|_(settle|ack)\(`),
	"a fold":                regexp.MustCompile(`_fold"?\(`),
	"a sweep":               regexp.MustCompile(`_sweep"?\(`),
	"a decision about time": regexp.MustCompile(`xmin::text`),
}

// callable are those of them that are SQL functions, too, which may stay in a transaction.
var callable = []string{"a claim", "a settle"}

// A freezer freezes one session of a process when it has sent a statement in the middle of a transaction. Until it is
// thawed, nothing more is sent, not even that its client has given up. What has waited is then sent late.
type freezer struct {
	thaw   func()
	thawed chan struct{}
	tell   func(statement string)
	first  sync.Once
}

func newFreezer(tell func(statement string)) *freezer {
	f := &freezer{thawed: make(chan struct{}), tell: tell}
	f.thaw = sync.OnceFunc(func() { close(f.thawed) })
	return f
}

// freeze freezes the first session of a pool that sends such a statement.
func (f *freezer) freeze(config *pgxpool.Config, statement *regexp.Regexp) {
	config.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return &frozen{Conn: conn, freezer: f, statement: statement}, nil
	}
}

// frozen is a connection to which pgx writes whole messages.
type frozen struct {
	net.Conn
	freezer   *freezer
	statement *regexp.Regexp
	reader    frontend.Reader

	mu     sync.Mutex
	still  bool
	closed bool
	late   []byte
}

// Write implements net.Conn.
func (c *frozen) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.still {
		c.late = append(c.late, b...)
		return len(b), nil
	}
	sent, last := c.upTo(b)
	if _, err := c.Conn.Write(b[:sent]); err != nil {
		return 0, err
	}
	if c.still {
		c.late = append(c.late, b[sent:]...)
		go c.rest(last)
	}
	return len(b), nil
}

// upTo is how much of b is sent: all of it, or everything before the statement after the one that freezes the session.
// Messages that only ask for replies are sent with it.
func (c *frozen) upTo(b []byte) (sent int, last string) {
	for m, sql := range c.reader.Messages(b) {
		if c.still && sql != "" {
			return sent, last
		}
		sent += len(m)
		if c.statement.MatchString(sql) {
			c.freezer.first.Do(func() { c.still, last = true, sql })
		}
	}
	return len(b), last
}

// rest sends the rest once the session is thawed.
func (c *frozen) rest(statement string) {
	c.freezer.tell(statement)
	<-c.freezer.thawed
	c.mu.Lock()
	defer c.mu.Unlock()
	c.still = false
	_, _ = c.Conn.Write(c.late) // fails if the server has ended the session
	if c.late = nil; c.closed {
		c.Conn.Close()
	}
}

// Close implements net.Conn.
func (c *frozen) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed = true; c.still {
		return nil
	}
	return c.Conn.Close()
}
