//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/localpg"
)

// failover stops the primary and promotes its synchronous standby. Then the old primary becomes the standby of the new
// one, from a base backup. Clients name both servers, and connect to the one that accepts writes.
type failover struct {
	private
	basebackup string
}

// prepare makes a second server the standby.
func (f *failover) prepare(ctx context.Context, l *lab) (err error) {
	var bin string
	if err := l.admin.QueryRow(ctx, "SELECT setting FROM pg_config WHERE name = 'BINDIR'").Scan(&bin); err != nil {
		return err
	}
	f.basebackup = filepath.Join(bin, "pg_basebackup")
	if _, err := os.Stat(f.basebackup); err != nil {
		return skip("there is no %s", f.basebackup)
	}
	settings := maps.Clone(l.settings)
	l.standbyAddress = loopback() + ":5432"
	settings["listen_addresses"] = strings.TrimSuffix(l.standbyAddress, ":5432")
	restore := l.putEnvironment()
	l.standby, err = localpg.Start(ctx, localpg.Options{Settings: settings})
	restore()
	if err != nil {
		return err
	}
	if err := l.standby.Crash(); err != nil {
		return err
	}
	for _, space := range l.spaces { // on the same file system, so that a full disk affects both
		l.standbySpaces = append(l.standbySpaces, space+"-of-standby")
	}
	l.url = socketURL(l.server.Dir(), l.standby.Dir())
	return l.reopenAdmin(ctx)
}

// follow makes the standby a copy of the primary that follows it.
func (f *failover) follow(ctx context.Context, l *lab) error {
	data := filepath.Join(l.standby.Dir(), "data")
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	args := []string{"-D", data, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync", "-d", l.server.URL()}
	for i, space := range l.spaces {
		if err := os.RemoveAll(l.standbySpaces[i]); err != nil {
			return err
		}
		args = append(args, "--tablespace-mapping="+space+"="+l.standbySpaces[i])
	}
	cmd := exec.CommandContext(ctx, f.basebackup, args...)
	cmd.Dir = "/"
	owner, err := localpg.Credential()
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return l.standby.Restart(ctx)
}

func (f *failover) strike(ctx context.Context, l *lab, _ *rand.Rand) (string, error) {
	if err := f.follow(ctx, l); err != nil {
		return "", err
	}
	if err := l.synchronous(ctx); err != nil {
		return "", errors.Join(err, l.setSynchronous(ctx, l.admin, "''"))
	}
	time.Sleep(episode / 3)
	l.hit = time.Now()
	defer l.outage(l.hit)
	if err := l.server.Crash(); err != nil {
		return "", err
	}
	if err := promote(ctx, l.standby.URL()); err != nil {
		return "", err
	}
	l.changePlaces()
	took := time.Since(l.hit)
	return fmt.Sprintf("the standby took over after %v", took.Round(time.Millisecond)), l.awaitServer(ctx)
}

// changePlaces swaps the server and the standby.
func (l *lab) changePlaces() {
	l.server, l.standby = l.standby, l.server
	l.address, l.standbyAddress = l.standbyAddress, l.address
	l.spaces, l.standbySpaces = l.standbySpaces, l.spaces
}

// synchronous makes every later commit wait for the standby, and returns when that is in effect. Everything committed
// before has reached the standby by then.
func (l *lab) synchronous(ctx context.Context) error {
	if err := l.setSynchronous(ctx, l.admin, "'*'"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, retryLimit)
	defer cancel()
	for {
		var in bool
		err := l.admin.QueryRow(ctx, "SELECT count(*) FILTER (WHERE sync_state = 'sync' AND state = 'streaming') > 0 "+
			"FROM pg_stat_replication").Scan(&in)
		if in && err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the standby does not follow: %w", errors.Join(err, ctx.Err()))
		}
		time.Sleep(retryBase)
	}
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func (l *lab) setSynchronous(ctx context.Context, on execer, names string) error {
	_, err := on.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = "+names)
	if err == nil {
		_, err = on.Exec(ctx, "SELECT pg_reload_conf()")
	}
	return err
}

// promote promotes a standby. If its commits were set to wait for a standby, that setting was copied and is removed.
func promote(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range []string{
		"SELECT pg_promote(true, 60)", "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
