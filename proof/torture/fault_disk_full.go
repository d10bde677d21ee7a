//go:build linux

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// diskFull places the tables in a tablespace on a file system of their own, and fills it.
type diskFull struct {
	private
	dir string // mount point of the file system; empty if there is none
}

// roomy is more than a run writes. The memory is used only as data is written.
const roomy = 16 << 30

func (d *diskFull) prepare(ctx context.Context, l *lab) error {
	if os.Geteuid() != 0 {
		return skip("only root can mount the small file system that is to be full")
	}
	dir := filepath.Join(l.dir, smallName)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", int64(roomy))); err != nil {
		return skip("a tmpfs cannot be mounted: %v", err)
	}
	d.dir = dir
	info, err := os.Stat(filepath.Join(l.server.Dir(), "data"))
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	space := filepath.Join(dir, "space")
	for _, d := range []string{dir, space} { // base backups use the directory and create it again
		err := errors.Join(os.MkdirAll(d, 0o700), os.Chown(d, int(owner.Uid), int(owner.Gid)))
		if err != nil {
			return err
		}
	}
	if _, err := l.admin.Exec(ctx, fmt.Sprintf("CREATE TABLESPACE small LOCATION '%s'", space),
		pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	l.tables["default_tablespace"] = "small"
	l.spaces = append(l.spaces, space)
	return nil
}

func (d *diskFull) strike(ctx context.Context, l *lab, _ *rand.Rand) (string, error) {
	var full syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &full); err != nil {
		return "", err
	}
	used := int64(full.Blocks-full.Bfree) * full.Bsize
	err := d.resize(used)
	if err == nil {
		err = l.runOut(ctx)
	}
	time.Sleep(episode)
	return fmt.Sprintf("no room beyond %d MiB", used>>20), errors.Join(err, d.resize(roomy))
}

// runOut verifies that the disk is full, since otherwise it would test nothing.
func (l *lab) runOut(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, l.admin, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "CREATE TABLE "+l.schema+
			".filler TABLESPACE small AS SELECT repeat('x', 1000) FROM generate_series(1, 10000)")
		if err == nil {
			err = errors.New("there was room for more")
		}
		return err
	})
	if full, ok := errors.AsType[*pgconn.PgError](err); ok && full.Code == "53100" {
		return nil
	}
	return fmt.Errorf("the disk was not full: %w", err)
}

func (d *diskFull) resize(size int64) error {
	return syscall.Mount("tmpfs", d.dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size))
}

// close is called before the server stops, which still uses the file system. It detaches the file system, which
// disappears when nobody uses it any more.
func (d *diskFull) close() {
	if d.dir != "" {
		_ = syscall.Unmount(d.dir, syscall.MNT_DETACH)
	}
}
