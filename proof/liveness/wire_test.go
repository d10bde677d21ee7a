package liveness

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/frontend"
)

// A wire is what one program's connections go through. It sees every statement that the program sends, in whatever of
// pgx's modes. It can stop the whole program before it sends what is next, as SIGSTOP would: nothing more leaves the
// program, nothing reaches it, and the server sees its sessions as they are. Or it has the server refuse a statement.
type wire struct {
	// freeze is the sending before which the program stops; the zero moment: none. What pgx pipelines is one: no signal
	// comes between its statements.
	freeze moment
	// refuse returns the SQLSTATE with which a statement fails; empty: it is passed on.
	refuse func(statement string) string

	mu       sync.Mutex
	sendings []moment
	frozen   chan struct{} // closed when it has stopped
	gone     chan struct{} // closed when it is killed
	conns    []net.Conn
}

// A moment is when a program sends something. It is known by what is sent and how often that was sent before, since how
// much comes before it depends on what else is there: who folds beside others asks again and again.
type moment struct {
	statements []string
	time       int // from 1
}

func next(before []moment, statements []string) moment {
	m := moment{statements, 1}
	for _, b := range before {
		if slices.Equal(b.statements, statements) {
			m.time++
		}
	}
	return m
}

func (m moment) is(other moment) bool {
	return m.time == other.time && slices.Equal(m.statements, other.statements)
}

func newWire() *wire { return &wire{frozen: make(chan struct{}), gone: make(chan struct{})} }

// through sends a pool's connections through the wire, and those of workers on it.
func (w *wire) through(c *pgxpool.Config) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !w.passes() {
			return nil, net.ErrClosed
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conns = append(w.conns, conn)
		return &wired{Conn: conn, wire: w}, nil
	}
}

// kill breaks all connections, as the end of the program does.
func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.gone:
	default:
		close(w.gone)
	}
	for _, c := range w.conns {
		c.Close()
	}
}

// passes waits while the program is stopped, and is false once it has been killed.
func (w *wire) passes() bool {
	select {
	case <-w.gone:
		return false
	case <-w.frozen:
		<-w.gone
		return false
	default:
		return true
	}
}

// sends notes statements that go together. It is false where the program stops before them.
func (w *wire) sends(statements []string) (goes bool) {
	if len(statements) == 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := next(w.sendings, statements)
	w.sendings = append(w.sendings, now)
	if now.is(w.freeze) {
		close(w.frozen)
		return false
	}
	return true
}

// sent are the statements so far, by how they were sent.
func (w *wire) sent() []moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sendings)
}

// wired is one connection. Its Write is called with whole messages, which is what pgx does.
type wired struct {
	net.Conn
	wire *wire

	mu       sync.Mutex
	reader   frontend.Reader
	released bool     // it was an announcer's, which has released its lock
	refusals []string // SQLSTATEs in the place of those that the server will answer
}

func (c *wired) Write(b []byte) (int, error) {
	if !c.wire.passes() {
		return 0, net.ErrClosed
	}
	out, statements := c.scan(b)
	if !c.wire.sends(statements) {
		c.wire.passes()
		return 0, net.ErrClosed
	}
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// scan goes through the messages.
func (c *wired) scan(b []byte) (out []byte, statements []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for m, sql := range c.reader.Messages(b) {
		if sql != "" {
			sql = c.named(sql)
			statements = append(statements, sql)
			m = c.refusal(sql, m)
		}
		out = append(out, m...)
	}
	return out, statements
}

// times, and the number of its session, are what an announcer writes into its statements.
var (
	times   = regexp.MustCompile(`\d{10,}'\)$`)
	session = regexp.MustCompile(`pg_backend_pid\(\) = \d+`)
)

// named is the statement without what differs from one time to the next, and with what tells an announcer that falls
// asleep from one that is awake.
func (c *wired) named(sql string) string {
	if strings.HasPrefix(sql, "SELECT pg_advisory_unlock(") {
		c.released = true
		return sql
	}
	sql = session.ReplaceAllString(times.ReplaceAllString(sql, "…')"), "pg_backend_pid() = …")
	if c.released {
		sql += " -- after the lock is released"
	}
	return sql
}

func message(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body))), body...)
}

// refusal is a message or, where its statement is to be refused, another one that the server refuses.
func (c *wired) refusal(sql string, m []byte) []byte {
	if c.wire.refuse == nil {
		return m
	}
	code := c.wire.refuse(sql)
	if code == "" {
		return m
	}
	c.refusals = append(c.refusals, code)
	if m[0] == 'Q' {
		return message('Q', "EXECUTE refused\x00") // there is no such statement: 26000
	}
	return message('E', "refused\x00\x00\x00\x00\x00") // nor such a portal: 34000
}

// Read puts the SQLSTATEs of refused statements in the place of the server's own, which are as long.
func (c *wired) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.wire.passes() {
		return 0, net.ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, own := range []string{"C34000\x00", "C26000\x00"} {
		if at := bytes.Index(b[:n], []byte(own)); at >= 0 && len(c.refusals) > 0 {
			copy(b[at+1:], c.refusals[0])
			c.refusals = c.refusals[1:]
		}
	}
	return n, err
}

// Close leaves a stopped program's sessions to the server, however its library has given them up.
func (c *wired) Close() error {
	select {
	case <-c.wire.frozen:
		return nil
	default:
		return c.Conn.Close()
	}
}

// label tells what is sent, for names: the first statement that does not only prepare for others.
func label(statements []string) string {
	for _, sql := range statements {
		lower := strings.ToLower(sql)
		if len(statements) == 1 || !strings.HasPrefix(lower, "begin") &&
			!strings.HasPrefix(lower, "select set_config") {
			words := strings.Fields(sql)
			return strings.Join(words[:min(len(words), 6)], " ")
		}
	}
	return "nothing"
}
