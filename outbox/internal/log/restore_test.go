package log_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgschema"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox/internal/log"
)

// elsewhere makes the log look as if it had been written in another cluster, whose ids are larger.
func (f *fixture) elsewhere() {
	f.Helper()
	const ahead = "1000000000"
	seen := func(column string) string {
		return strings.NewReplacer("{c}", column, "{by}", ahead, "{log}", f.name).Replace(
			`{c} = ROW(({c}).n, ({c}).low + {by}, ({c}).high + {by},
				ARRAY(SELECT x + {by} FROM unnest(({c}).open) AS x), ({c}).seq)::{log}_seen`)
	}
	tx := f.begin()
	f.exec(tx, "SET LOCAL session_replication_role = replica")
	f.exec(tx, "UPDATE "+f.name+" SET xid = xid + "+ahead)
	f.exec(tx, "UPDATE "+f.name+"_tick SET "+seen("seen"))
	f.exec(tx, "UPDATE "+f.name+"_position SET "+seen("seen"))
	f.exec(tx, "UPDATE "+f.name+"_position SET "+seen("upto")+" WHERE (upto).n IS NOT NULL")
	f.exec(tx, "UPDATE "+f.name+"_state SET system = system + 1")
	f.ok(tx.Commit(f.Context()))
}

// Where ids began again, nothing is accepted that would not be delivered. After rebase, everything is.
func TestRestore(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.subscribe("in_hand")
	late := f.begin()
	f.append(late, "late")
	f.append(f.Pool, "a", "b")
	f.tick()
	f.ok(late.Commit(f.Context()))
	f.append(f.Pool, "c") // behind the last tick
	p := f.fetch("in_hand", 1)
	want := []string{"late", "a", "b", "c"}
	rest := []string{"b", "late", "c"}
	for range 2 { // a restored log can be restored again
		f.elsewhere()
		_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_append('topic', '')")
		f.refused("append", err, "55000")
		_, err = f.Pool.Exec(f.Context(), "SELECT "+f.name+"_append('topic', '', scheduled_at => now() + interval '1 h')")
		f.refused("append of what is due later", err, "55000")
		_, err = f.Pool.Exec(f.Context(), "INSERT INTO "+f.name+" (topic, payload) VALUES ('t', '')")
		f.refused("insert", err, "55000")
		_, err = f.Pool.Exec(f.Context(), "CALL "+f.name+"_tick()")
		f.refused("tick", err, "55000")
		_, err = fetch(f.Context(), f.Pool, f.name, "s", uuid.New(), lease, 10)
		f.refused("fetch", err, "55000")
		_, err = f.Pool.Exec(f.Context(), "CALL "+f.name+"_trim('0')")
		f.refused("trim", err, "55000")

		shift := value[int64](f, f.Pool, "SELECT "+f.name+"_rebase()")
		if again := value[int64](f, f.Pool, "SELECT "+f.name+"_rebase()"); shift <= 0 || again != shift {
			t.Errorf("rebase: %d, and again: %d", shift, again)
		}
		if p.token != uuid.Nil {
			f.want("the page in hand", f.fetchAgain("in_hand", p.token, 1).payloads(), "a")
			f.settle("in_hand", p.token, p.upto)
			f.lapse("in_hand")
			p.token = uuid.Nil
		}
		f.append(f.Pool, "new")
		f.want("s", f.drain("s", 10), append(want, "new")...)
		f.want("in_hand", f.drain("in_hand", 10), append(rest, "new")...)
		want, rest = nil, nil
	}
}

// The new cluster has given more ids than the old one: what is written there before rebase is delivered after it.
func TestRestoreWhereIdsAreLarger(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "a")
	f.exec(f.Pool, "UPDATE "+f.name+"_state SET system = system + 1")
	f.append(f.Pool, "b")
	_, err := f.Pool.Exec(f.Context(), "CALL "+f.name+"_tick()")
	f.refused("tick", err, "55000")
	open := f.begin()
	f.append(open, "c")
	f.ok(open.Commit(f.Context()))
	f.exec(f.Pool, "SELECT "+f.name+"_rebase()")
	f.append(f.Pool, "d")
	f.want("s", f.drain("s", 10), "a", "b", "c", "d")
}

// Sequences are not replicated: what is scheduled after a rebase is behind what was, and the rebase waits for
// producers.
func TestRestoreOfWhatIsScheduled(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	for _, p := range []string{"1", "2"} {
		f.schedule(f.Pool, "k", p, time.Hour)
	}
	f.elsewhere()
	f.exec(f.Pool, "ALTER SEQUENCE "+f.name+"_later_ord_seq RESTART")
	tx := f.begin()
	f.exec(tx, "INSERT INTO "+f.name+"_dedup (topic, dedup_key, id) VALUES ('t', 'd', gen_random_uuid())")
	done := make(chan error, 1)
	go func() {
		_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_rebase()")
		done <- err
	}()
	for end := time.Now().Add(pgtest.Patience); !pgtest.SomebodyWaits(t, f.Pool, f.name+"_dedup"); {
		if time.Now().After(end) {
			t.Fatal("the rebase does not wait for the producer")
		}
	}
	f.exec(tx, "SELECT FROM "+f.name)
	f.ok(tx.Commit(f.Context()))
	f.ok(<-done)
	f.schedule(f.Pool, "k", "3", time.Hour)
	f.passTime(2 * time.Hour)
	f.want("in their order", f.drain("s", 10), "1", "2", "3")
}

// A transaction that has used one table of the log, and then uses the others, meets a rebase that waits for it.
func TestARebaseHoldsNothingWhileItWaits(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "a")
	tables := []string{f.name, f.name + "_later", f.name + "_dedup"}
	for _, mode := range []string{"ACCESS SHARE", "ROW EXCLUSIVE"} {
		for _, used := range tables {
			f.exec(f.Pool, "UPDATE "+f.name+"_state SET system = system + 1")
			tx := f.begin()
			f.exec(tx, "LOCK TABLE "+used+" IN ROW EXCLUSIVE MODE")
			done := make(chan error, 1)
			go func() {
				_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_rebase()")
				done <- err
			}()
			f.waits("_rebase()")
			for _, other := range tables {
				if _, err := tx.Exec(f.Context(), "LOCK TABLE "+other+" IN "+mode+" MODE"); err != nil {
					t.Fatalf("%s, after %s: %v", other, used, err)
				}
			}
			f.ok(tx.Commit(f.Context()))
			f.ok(<-done)
		}
	}
	f.append(f.Pool, "b")
	f.want("s", f.drain("s", 10), "a", "b")
}

// A dump that is restored in a new cluster, with PostgreSQL's own programs. Both clusters were copied from one, so they
// have the same identifier, and only ids tell them apart.
func TestADump(t *testing.T) {
	t.Parallel()
	old := server(t, nil)
	f := logOn(t, old)
	for _, program := range []string{"pg_dump", "psql"} {
		if _, err := os.Stat(filepath.Join(f.bin(), program)); err != nil {
			t.Skipf("this PostgreSQL has no %s", program)
		}
	}
	f.exec(f.Pool, "DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
	f.subscribe("s")
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('lanes', lanes => 3)")
	long := f.begin()
	f.append(long, "long")
	f.appendKey(f.Pool, "k", numbered("k", 1, 20)...)
	f.tick()
	page := f.fetch("s", 5)
	f.settle("s", page.token, page.messages[2].Seq, failing(page, "k2"))
	f.append(f.Pool, "behind the tick")
	f.ok(long.Commit(f.Context()))

	new := server(t, nil)
	dump := filepath.Join(t.TempDir(), "dump.sql")
	f.program("pg_dump", "--file", dump, old.URL())
	f.program("psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--file", dump, new.URL())
	r := &fixture{T: t, DB: &pgtest.DB{Pool: pgschema.NewPool(t, new.URL()), Schema: f.DB.Schema}, name: f.name}
	_, err := r.Pool.Exec(r.Context(), "SELECT "+r.name+"_append('topic', '')")
	r.refused("append", err, "55000")
	_, err = r.Pool.Exec(r.Context(), "CALL "+r.name+"_tick()")
	r.refused("tick", err, "55000")
	r.exec(r.Pool, "SELECT "+r.name+"_rebase()")
	r.append(r.Pool, "new")
	r.lapse("s")
	r.want("parked", r.parked("s"), "k2", "k3")
	r.want("s", r.drain("s", 4), "long", "behind the tick", "new")
	r.want("parked, with the rest of the key", r.parked("s"), numbered("k", 2, 20)...)
	r.want("in their order", r.run("s", nil), numbered("k", 2, 20)...)
	got := r.drain("lanes", 4)
	r.want("the key", slices.DeleteFunc(slices.Clone(got), func(p string) bool { return p[0] != 'k' }),
		numbered("k", 1, 20)...)
	slices.Sort(got)
	want := append(numbered("k", 1, 20), "long", "behind the tick", "new")
	slices.Sort(want)
	r.want("lanes", got, want...)
}

// logOn makes a log on a server.
func logOn(t *testing.T, s *localpg.Server) *fixture {
	t.Helper()
	db := pgschema.New(t, s.URL())
	up, _, err := log.DDL(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	db.Define(t, up)
	return &fixture{T: t, DB: db, name: db.Schema + ".outbox_log"}
}

func server(t *testing.T, settings map[string]string) *localpg.Server {
	t.Helper()
	s, err := localpg.Start(t.Context(), localpg.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// program runs a program of the server's installation.
func (f *fixture) program(name string, args ...string) {
	f.Helper()
	out, err := exec.CommandContext(f.Context(), filepath.Join(f.bin(), name), args...).CombinedOutput()
	if err != nil {
		f.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func (f *fixture) bin() string {
	f.Helper()
	return value[string](f, f.Pool, "SELECT setting FROM pg_config WHERE name = 'BINDIR'")
}

// Where ids have not begun again, a rebase changes nothing, and waits for nobody who writes.
func TestARebaseThatIsNotNeeded(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.append(f.begin(), "m")
	tx := f.begin()
	f.exec(tx, "SET LOCAL lock_timeout = '1s'")
	if shift := value[int64](f, tx, "SELECT "+f.name+"_rebase()"); shift != 0 {
		t.Errorf("the shift is %d", shift)
	}
}
