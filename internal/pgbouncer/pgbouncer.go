//go:build unix

// Package pgbouncer runs PgBouncer in transaction mode, with two connections for each pool, in front of a private
// server.
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

// Options say how PgBouncer runs, and how it logs in to the server.
type Options struct {
	Program  string // path of the program
	Dir      string // where its configuration is written; must be readable for the server's owner
	Database string // how it logs in to the server's databases, as in its section [databases]
	Settings string // further lines of its section [pgbouncer]
}

// Command returns the command that runs PgBouncer, and the address on which it will listen. It runs as the server's
// owner, because PgBouncer refuses to run as root too. The caller starts and ends it.
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

// startLimit is long enough for a busy machine.
const startLimit = 30 * time.Second

// Await waits until a server answers at the URL.
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
