package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
)

// brokenConn loses the reply to a COMMIT, or the COMMIT itself.
type brokenConn struct {
	net.Conn
	loseCommit bool
	committed  atomic.Bool
}

func (c *brokenConn) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte("commit\x00")) {
		return c.Conn.Write(p)
	}
	if c.loseCommit {
		_ = c.Conn.Close()
		return len(p), nil
	}
	c.committed.Store(true) // before the write, because pgx may read the reply while a slow write is still running
	return c.Conn.Write(p)
}

func (c *brokenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.committed.Load() {
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (f *fixture) brokenPool(loseCommit bool) *pgxpool.Pool {
	f.Helper()
	config, err := pgxpool.ParseConfig(f.URL)
	if err != nil {
		f.Fatal(err)
	}
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &brokenConn{Conn: conn, loseCommit: loseCommit}, nil
	}
	pool, err := pgxpool.NewWithConfig(f.Context(), config)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(pool.Close)
	return pool
}

func TestALostCommitIsUnknownUntilItIsRepeated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		loseCommit bool
		repeated   inbox.Answer
	}{
		"the reply was lost":  {false, inbox.Duplicate},
		"the commit was lost": {true, inbox.Processed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newInbox(t)
			result, err := f.box.Process(t.Context(), f.brokenPool(c.loseCommit), key("1"), effect("1"))
			if !errors.Is(err, inbox.ErrCommitUnknown) || !strings.Contains(err.Error(), "repeat") ||
				result != (inbox.Result{}) {
				t.Fatalf("got %+v, %v", result, err)
			}
			var repeated inbox.Result
			f.until("the lost connection's transaction has ended", func() bool {
				repeated = f.process(key("1"))
				return repeated.Answer != inbox.InProgress
			})
			if repeated.Answer != c.repeated {
				t.Errorf("repeated, it says %v, want %v", repeated.Answer, c.repeated)
			}
			if n := f.effects("1"); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
		})
	}
}
