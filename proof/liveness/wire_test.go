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

// A wire carries one program's connections. It sees every statement that the program sends, in any of pgx's modes. It
// can stop the whole program before it sends the next thing, as SIGSTOP would: nothing more leaves the program, nothing
// reaches it, and the server's sessions stay as they are. Or it makes the server refuse a statement.
type wire struct {
	// freeze is the moment before which the program stops; the zero moment: never. A pipeline of pgx is a single
	// moment, because no signal can separate its statements.
	freeze moment
	// refuse returns the SQLSTATE with which a statement is to fail, or an empty string to pass it on.
	refuse func(statement string) string

	mu       sync.Mutex
	sendings []moment
	frozen   chan struct{} // closed when the program has stopped
	gone     chan struct{} // closed when the program is killed
	conns    []net.Conn
}

// A moment is when a program sends something. It is identified by what is sent and how often the same was sent before.
// Its position among all moments depends on what else happens: a session that folds beside others asks repeatedly.
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

// through makes the connections of a pool, and of workers that use it, go through the wire.
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

// kill breaks all connections, as the end of the program would.
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

// passes waits while the program is stopped, and returns false once it has been killed.
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

// sends records statements that are sent together. It returns false if the program stops before them.
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

// sent returns the statements so far, grouped as they were sent.
func (w *wire) sent() []moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sendings)
}

// wired is one connection. pgx calls its Write with whole messages.
type wired struct {
	net.Conn
	wire *wire

	mu       sync.Mutex
	reader   frontend.Reader
	released bool     // it belonged to an announcer that has released its lock
	refusals []string // SQLSTATEs that replace those of the server's next errors
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

// scan processes the messages.
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

// An announcer writes times, and the number of its session, into its statements.
var (
	times   = regexp.MustCompile(`\d{10,}'\)$`)
	session = regexp.MustCompile(`pg_backend_pid\(\) = \d+`)
)

// named returns the statement without the parts that differ from one time to the next. It tells an announcer that falls
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

// refusal returns the message or, if its statement is to be refused, another message that the server refuses.
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
		return message('Q', "EXECUTE refused\x00") // there is no such prepared statement: 26000
	}
	return message('E', "refused\x00\x00\x00\x00\x00") // there is no such portal: 34000
}

// Read replaces the server's SQLSTATEs by those of the refused statements, which have the same length.
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

// Close leaves a stopped program's sessions to the server, even if its library has given them up.
func (c *wired) Close() error {
	select {
	case <-c.wire.frozen:
		return nil
	default:
		return c.Conn.Close()
	}
}

// label names what is sent by the first statement that is not only preparation.
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
