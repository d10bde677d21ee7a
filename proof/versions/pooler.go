package versions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgbouncer"
	"github.com/txwork/txwork/internal/pgtest"
)

// poolerSettings let every role of the server in. Tests have a role each, hence pools of 2 connections of their own,
// which may not stay for long.
const poolerSettings = `auth_type = trust
auth_query = SELECT usename, '' FROM pg_shadow WHERE usename = $1
server_idle_timeout = 2`

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

func startPooler(ctx context.Context, program string, server *localpg.Server) (address string, stop func(), err error) {
	direct, err := pgx.ParseConfig(server.URL())
	if err != nil {
		return "", nil, err
	}
	cmd, address, err := pgbouncer.Command(server, pgbouncer.Options{
		Program: program, Dir: server.Dir(), Database: "auth_user=" + direct.User, Settings: poolerSettings,
	})
	if err != nil {
		return "", nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	url := fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&default_query_exec_mode=exec", direct.User, address,
		direct.Database)
	if err := pgbouncer.Await(ctx, url); err != nil {
		stop()
		return "", nil, err
	}
	return address, stop, nil
}
