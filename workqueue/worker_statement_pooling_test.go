package workqueue_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// A statementPooler is a connection that looks like one through PgBouncer with pool_mode = statement: if the server
// waits for more of a transaction, the pooler gives the server connection up and tells its client so.
type statementPooler struct {
	net.Conn
	pending bytes.Buffer
	ended   bool
}

func (c *statementPooler) Read(p []byte) (int, error) {
	if c.pending.Len() == 0 {
		if c.ended {
			return 0, io.EOF
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	return c.pending.Read(p)
}

// fill reads the server's next message. It replaces a ReadyForQuery inside a transaction by PgBouncer's own message.
func (c *statementPooler) fill() error {
	header := make([]byte, 5)
	if _, err := io.ReadFull(c.Conn, header); err != nil {
		return err
	}
	body := make([]byte, binary.BigEndian.Uint32(header[1:])-4)
	if _, err := io.ReadFull(c.Conn, body); err != nil {
		return err
	}
	message := append(header, body...)
	if header[0] == 'Z' && body[0] == 'T' {
		c.ended = true
		refusal := pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01",
			Message: "transaction blocks not allowed in statement pooling mode"}
		var err error
		if message, err = refusal.Encode(nil); err != nil {
			return err
		}
	}
	c.pending.Write(message)
	return nil
}

// Behind a pooler in statement mode a worker would claim and settle, but no handler could have a transaction.
func TestWorkersRefuseAPoolerInStatementMode(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	pool := r.openPool(func(c *pgxpool.Config) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &statementPooler{Conn: conn}, nil
		}
	})
	id := r.insert("one")[0]
	w := r.startOn(pool, r.Domain, workqueue.WorkerOptions{NoListen: true}, ackAll)
	err := w.wait(t)
	for _, want := range []string{"statement mode", "pool_mode = transaction",
		"transaction blocks not allowed in statement pooling mode"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run returned %v, want %q in it", err, want)
		}
	}
	if got := r.row(id); got.Status != workqueue.Ready || got.Attempts != 0 {
		t.Errorf("the row is %+v, want it untouched", got)
	}
}
