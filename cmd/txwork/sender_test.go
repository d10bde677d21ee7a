package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A losingConn loses a COMMIT, or the reply to it.
type losingConn struct {
	net.Conn
	loseCommit bool
	committed  atomic.Bool
}

func (c *losingConn) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte("commit\x00")) {
		return c.Conn.Write(p)
	}
	if c.loseCommit {
		_ = c.Close()
		return len(p), nil
	}
	defer c.committed.Store(true)
	return c.Conn.Write(p)
}

func (c *losingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.committed.Load() {
		_ = c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// losingPool returns a pool of losingConns.
func (c *cli) losingPool(loseCommit bool) *pgxpool.Pool {
	c.t.Helper()
	config, err := pgxpool.ParseConfig(c.url)
	must(c.t, err)
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &losingConn{Conn: conn, loseCommit: loseCommit}, err
	}
	pool, err := pgxpool.NewWithConfig(c.t.Context(), config)
	must(c.t, err)
	c.t.Cleanup(pool.Close)
	return pool
}

// If the reply to a commit is lost, the sender must not report that nothing was written: the user would send the lines
// again.
func TestSendSaysWhenACommitIsUnknown(t *testing.T) {
	c := newMigratedCLI(t)
	for name, test := range map[string]struct {
		loseCommit bool
		written    int
	}{
		"the reply was lost":  {false, 2},
		"the commit was lost": {true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := c.in(t)
			o := sendOptions{topic: name, batch: 100}
			s := &sender{sendOptions: o, pool: c.losingPool(test.loseCommit), outbox: c.outbox, stderr: io.Discard,
				progress: &progress{}}
			err := s.sendAll(t.Context(), readLines(t.Context(), strings.NewReader("1\n2\n"), 100))
			if err == nil {
				t.Fatal("the sender reports no error")
			}
			contains(t, "the error", err.Error(), "the reply to the commit was lost",
				"whether lines 1 to 2 were written is unknown, so look before you resume")
			eventually(t, "what was committed is there", func() bool { return c.countTopic(name) == test.written })
		})
	}
}

func TestSendSaysWhenACommitDidNotHappen(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec(`CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not today''; END';
		CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON {schema}.outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()`)
	c.send("1\n2\n", "--topic", "t").exits(exitFailure).says("not today", "nothing of lines 1 to 2 was written",
		"resume from line 1")
}
