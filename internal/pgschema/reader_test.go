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

// A slowConn takes so long to write that pgx starts a reader, and has the answer before the write returns.
type slowConn struct {
	net.Conn
	slow *atomic.Bool
}

func (c slowConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.slow.Load() {
		time.Sleep(4 * slowWrite)
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
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return slowConn{conn, &slow}, err
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
