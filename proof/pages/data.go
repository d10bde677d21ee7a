package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sys/unix"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/measure"
	"github.com/txwork/txwork/workqueue"
)

// quiet logs nothing.
var quiet = workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}

// data is a database that has been filled.
type data struct {
	URL    string
	Pool   *pgxpool.Pool
	Dir    string          // of the server
	server *localpg.Server // nil if another process has started it
}

// Settings of a server that need not survive a crash. Its shared buffers are those of all measurements.
func settings() map[string]string {
	return map[string]string{"fsync": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0",
		"max_wal_size": "4GB", "shared_buffers": measure.Settings["shared_buffers"], "maintenance_work_mem": "256MB"}
}

// prepare opens the database at an address or, without one, starts a server and fills it.
func prepare(ctx context.Context, url string, rows int, progress io.Writer) (d *data, err error) {
	d = &data{URL: url}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if url == "" {
		if d.server, err = localpg.Start(ctx, localpg.Options{Durable: true, Settings: settings()}); err != nil {
			return d, err
		}
		d.URL = d.server.URL()
	}
	if d.Pool, err = pgxpool.New(ctx, d.URL); err != nil {
		return d, err
	}
	var directory string
	if err := d.Pool.QueryRow(ctx, "SHOW data_directory").Scan(&directory); err != nil {
		return d, err
	}
	d.Dir = filepath.Dir(directory)
	if url != "" {
		return d, nil
	}
	began := time.Now()
	if err := fill(ctx, d.Pool, rows, progress); err != nil {
		return d, err
	}
	fmt.Fprintf(progress, "pages: filled in %v\n", time.Since(began).Round(time.Second))
	return d, nil
}

func (d *data) close() error {
	if d.Pool != nil {
		d.Pool.Close()
	}
	if d.server != nil {
		return d.server.Stop()
	}
	return nil
}

// alive lets the processes that are filled in look alive until ctx ends.
func (d *data) alive(ctx context.Context) {
	for ctx.Err() == nil {
		_, _ = d.Pool.Exec(ctx, "UPDATE txwork.process SET beat_at = clock_timestamp()")
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Second):
		}
	}
}

// chill empties the caches of the server and, as far as the machine lets it, those of its files.
func (d *data) chill(ctx context.Context) error {
	d.Pool.Reset()
	if err := d.server.Restart(ctx); err != nil {
		return err
	}
	return filepath.WalkDir(d.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		return errors.Join(file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED))
	})
}
