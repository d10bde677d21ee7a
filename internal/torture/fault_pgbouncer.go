//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// pgbouncer puts a pooler in transaction mode, with two connections to the server, between a worker and the server.
type pgbouncer struct {
	private
	program string
}

func (p *pgbouncer) configure(l *lab) error {
	if err := l.needPrivate(); err != nil {
		return err
	}
	program, err := l.need(context.Background(), "pgbouncer", "/usr/sbin/pgbouncer")
	p.program = program
	return err
}

const poolerConfig = `[databases]
* = host=%[1]s port=5432 user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[2]d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 1000
`

func (p *pgbouncer) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	stop, err := p.start(l, port)
	if err != nil {
		return "", err
	}
	defer stop()
	address := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&connect_timeout=5&default_query_exec_mode=exec", port)
	if err := awaitAddress(ctx, address); err != nil {
		return "", err
	}
	slots := l.crew.workers()
	s := slots[random.IntN(len(slots))]
	direct := l.url
	if err := s.become(ctx, func(config *setup) { config.URL, config.ListenURL = address, direct }, nil); err != nil {
		return s.name, err
	}
	l.hit = time.Now()
	time.Sleep(lease + episode)
	return s.name, s.become(ctx, nil, nil)
}

func (p *pgbouncer) start(l *lab, port int) (stop func(), err error) {
	file := filepath.Join(l.dir, "pgbouncer.ini")
	if err := os.WriteFile(file, fmt.Appendf(nil, poolerConfig, l.server.Dir(), port), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(p.program, "-q", file)
	cmd.Dir = "/"
	cmd.SysProcAttr = memberAttributes()
	if cmd.SysProcAttr.Credential, err = l.serverOwner(); err != nil {
		return nil, err
	}
	if err := l.crew.spawner.start(cmd); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	}, nil
}

// serverOwner is whom the server runs as: PostgreSQL and PgBouncer refuse to run as root.
func (l *lab) serverOwner() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	info, err := os.Stat(l.server.Dir())
	if err != nil {
		return nil, err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}, nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// awaitAddress returns when a server answers there.
func awaitAddress(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, retryLimit)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, address)
		if err == nil {
			return conn.Close(ctx)
		}
		if ctx.Err() != nil {
			return err
		}
		time.Sleep(retryBase)
	}
}
