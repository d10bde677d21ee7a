//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
)

// A password that is replaced in its file is used for new connections: by the pool, the worker and its listener.
func TestPasswordsThatAreRotated(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	pool, err := pgxpool.New(t.Context(), server.URL())
	must(t, err)
	t.Cleanup(pool.Close)
	text, err := migrations.SQL(migrations.FileOptions{Schema: "txwork"})
	must(t, err)
	c := openCLI(t, &pgtest.DB{Pool: pool, Schema: "txwork"})
	c.exec(text)
	c.exec("CREATE ROLE app LOGIN SUPERUSER PASSWORD 'first'")
	hba := filepath.Join(server.Dir(), "data", "pg_hba.conf")
	rules, err := os.ReadFile(hba)
	must(t, err)
	must(t, os.WriteFile(hba, append([]byte("local all app scram-sha-256\n"), rules...), 0o600))
	c.exec("SELECT pg_reload_conf()")
	passfile := filepath.Join(t.TempDir(), "pass")
	write := func(password string) {
		must(t, os.WriteFile(passfile, []byte("*:*:*:app:"+password+"\n"), 0o600))
	}
	write("first")
	config, err := pgx.ParseConfig(server.URL())
	must(t, err)
	c.url = fmt.Sprintf("host=%s port=%d dbname=%s user=app sslmode=disable passfile=%s", config.Host, config.Port,
		config.Database, passfile)

	file := "outbox: {topics: {t: {exec: 'cat > \"got\"; mv got $(cat got)'}}}"
	w := c.newWorker(file, nil).start()
	c.enqueue(outbox.Message{Topic: "t", Payload: []byte("first")})
	w.file("first")
	const listeners = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app' AND query LIKE 'LISTEN%'"
	// A connection that is being made has the old password.
	eventually(t, "it listens, and its reaper leads", func() bool {
		return value[int](c, listeners) == 1 && value[int](c, "SELECT count(*) FROM txwork.leader") > 0
	})
	c.exec("ALTER ROLE app PASSWORD 'second'")
	write("second")
	// The first connections after it may have been begun between the two.
	before := 0
	for range 2 {
		before = len(w.logged())
		old := value[[]int32](c, "SELECT array_agg(pid) FROM pg_stat_activity WHERE usename = 'app'")
		c.exec("SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid", old)
		eventually(t, "it listens again", func() bool {
			return value[int](c, listeners+" AND pid <> ALL ($1)", old) == 1
		})
	}
	c.enqueue(outbox.Message{Topic: "t", Payload: []byte("second")})
	w.file("second")
	w.stop()
	if strings.Contains(w.logged()[before:], "28P01") {
		t.Errorf("the log is %s", w.logged())
	}
}
