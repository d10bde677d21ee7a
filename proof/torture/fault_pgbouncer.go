//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	pooler "github.com/txwork/txwork/internal/pgbouncer"
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

func (p *pgbouncer) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	address, stop, err := p.start(l, "auth_type = any")
	if err != nil {
		return "", err
	}
	defer stop()
	url := p.url(address)
	if err := pooler.Await(ctx, url); err != nil {
		return "", err
	}
	direct := l.url
	return l.as(ctx, random, func(config *setup) { config.URL, config.ListenURL = url, direct }, nil, func() error {
		l.hit = time.Now()
		time.Sleep(lease + episode)
		return nil
	})
}

func (*pgbouncer) url(address string) string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&connect_timeout=5&default_query_exec_mode=exec",
		address)
}

func (p *pgbouncer) start(l *lab, settings string) (address string, stop func(), err error) {
	cmd, address, err := pooler.Command(l.server, pooler.Options{
		Program: p.program, Dir: l.dir, Database: "user=postgres", Settings: settings,
	})
	if err != nil {
		return "", nil, err
	}
	owner := cmd.SysProcAttr.Credential
	cmd.SysProcAttr = memberAttributes()
	cmd.SysProcAttr.Credential = owner
	if err := l.crew.spawner.Start(cmd); err != nil {
		return "", nil, err
	}
	return address, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, nil
}
