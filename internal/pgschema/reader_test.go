package pgschema

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// The Write of a slowConn returns only when pgx, which has started a reader meanwhile, has read the answer and begun to
// read again: a reader that has not got the answer by then ends with it.
type slowConn struct {
	net.Conn
	slow  *atomic.Bool
	reads *atomic.Int32 // that have begun
}

// patience is how long a slow write waits for the reader, which takes milliseconds on an idle machine.
const patience = 2 * time.Minute

func (c slowConn) Read(b []byte) (int, error) {
	c.reads.Add(1)
	return c.Conn.Read(b)
}

func (c slowConn) Write(b []byte) (int, error) {
	before, begun := c.reads.Load(), time.Now()
	n, err := c.Conn.Write(b)
	for c.slow.Load() && c.reads.Load() < before+2 && time.Since(begun) < patience {
		time.Sleep(slowWrite / 10)
	}
	return n, err
}

// pgx reads in a goroutine while a write is slow, and that goroutine stays for as long as the session is idle.
func TestASpareSessionHasNoReader(t *testing.T) {
	config, err := pgx.ParseConfig(Server(t))
	if err != nil {
		t.Fatal(err)
	}
	var slow atomic.Bool
	var reads atomic.Int32
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return slowConn{conn, &slow, &reads}, err
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	before := goleak.IgnoreCurrent()
	slow.Store(true)
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if goleak.Find(before) == nil {
		t.Fatal("pgx has started no reader goroutine, so this test proves nothing")
	}
	slow.Store(false)
	for !endReader(t.Context(), conn, 4*slowWrite) { // repeated if the machine itself is slow
	}
	goleak.VerifyNone(t, before)
}
