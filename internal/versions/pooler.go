package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
)

// poolerConfig lets every role of the server in. Tests have a role each, hence pools of 2 connections of their own, which
// may not stay for long.
const poolerConfig = `[databases]
* = host=%[1]s port=5432 auth_user=%[2]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[3]d
unix_socket_dir =
auth_type = trust
auth_query = SELECT usename, '' FROM pg_shadow WHERE usename = $1
pool_mode = transaction
default_pool_size = 2
server_idle_timeout = 2
max_client_conn = 1000
`

const poolerStart = 30 * time.Second

// pooled puts PgBouncer in transaction mode, with two connections a pool, in front of a private server.
func pooled(mode string) func(context.Context) ([]string, func(), error) {
	return func(ctx context.Context) (env []string, end func(), err error) {
		program, err := poolerProgram()
		if err != nil {
			return nil, nil, err
		}
		server, err := localpg.Start(ctx, localpg.Options{Settings: map[string]string{"max_connections": "500"}})
		if err != nil {
			return nil, nil, err
		}
		address, stop, err := startPooler(ctx, program, server)
		if err != nil {
			return nil, nil, errors.Join(err, server.Stop())
		}
		env = []string{
			localpg.DatabaseURLEnv + "=" + server.URL(),
			pgtest.PoolerEnv + "=" + address,
			pgtest.ExecModeEnv + "=" + mode,
		}
		return env, func() { stop(); _ = server.Stop() }, nil
	}
}

func poolerProgram() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", unavailable{errors.New("PgBouncer is not installed: Debian's package pgbouncer has it")}
}

// startPooler runs PgBouncer as the server's owner, since it does not run as root either.
func startPooler(ctx context.Context, program string, server *localpg.Server) (address string, stop func(), err error) {
	config, err := pgx.ParseConfig(server.URL())
	if err != nil {
		return "", nil, err
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(server.Dir(), "pgbouncer.ini")
	text := fmt.Sprintf(poolerConfig, server.Dir(), config.User, port)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return "", nil, err
	}
	cmd := exec.Command(program, "-q", file)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	if os.Geteuid() == 0 {
		info, err := os.Stat(server.Dir())
		if err != nil {
			return "", nil, err
		}
		owner := info.Sys().(*syscall.Stat_t)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	address = fmt.Sprintf("127.0.0.1:%d", port)
	if err := awaitPooler(ctx, address, config); err != nil {
		stop()
		return "", nil, fmt.Errorf("PgBouncer: %w", err)
	}
	return address, stop, nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// awaitPooler returns when a server answers through the pooler.
func awaitPooler(ctx context.Context, address string, direct *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(ctx, poolerStart)
	defer cancel()
	url := fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&default_query_exec_mode=exec", direct.User, address, direct.Database)
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
