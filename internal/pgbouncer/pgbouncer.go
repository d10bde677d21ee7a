//go:build unix

// Package pgbouncer puts PgBouncer in transaction mode, with two connections a pool, in front of a private server.
package pgbouncer

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/localpg"
)

const config = `[databases]
* = host=%s port=5432 %s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
pool_mode = transaction
default_pool_size = 2
max_client_conn = 1000
%s
`

// Options say how PgBouncer is run, and whom it lets in.
type Options struct {
	Program  string // its file
	Dir      string // where its configuration is written; the server's owner can read it
	Database string // how it logs in to the server's databases, as in its section [databases]
	Settings string // further lines of its section [pgbouncer]
}

// Command is PgBouncer as the server's owner, since it does not run as root either, and the address on which it will
// listen. The caller starts it and ends it.
func Command(server *localpg.Server, o Options) (cmd *exec.Cmd, address string, err error) {
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(o.Dir, "pgbouncer.ini")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, server.Dir(), o.Database, port, o.Settings),
		0o644); err != nil {
		return nil, "", err
	}
	owner, err := localpg.Credential()
	if err != nil {
		return nil, "", err
	}
	cmd = exec.Command(o.Program, "-q", file)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	return cmd, fmt.Sprintf("127.0.0.1:%d", port), nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// startLimit is for a machine that has other things to do.
const startLimit = 30 * time.Second

// Await returns when a server answers at the URL.
func Await(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("PgBouncer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
