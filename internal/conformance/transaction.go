package conformance

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// Rows of a rolled-back enqueue are never claimed (I2).
func rollbackUndoesTheEnqueue(s *suite) {
	tx := s.open()
	_, err := tx.insert(s.Context(), s.newRow(), s.newRow())
	s.ok(err)
	equal(s, "rows of a claim before the commit", len(s.claim(10).ids), 0)
	s.ok(tx.rollback())
	equal(s, "rows of a claim after the rollback", len(s.claim(10).ids), 0)
	equal(s, "rows", scan[int](s, "SELECT count(*) FROM $T"), 0)
}

func rollbackUndoesTheClaim(s *suite) {
	ids := s.ready(2)
	s.unchanged(ids, func() {
		tx := s.open()
		got, err := tx.claim(s.Context(), workqueue.NewOwnerToken(), lease, 10, s.Lanes[0]...)
		s.ok(err)
		s.sameIDs(got, ids)
		equal(s, "rows of another's claim", len(s.claim(10).ids), 0)
		s.ok(tx.rollback())
	})
	s.sameIDs(s.claim(10).ids, ids)
}

// The business write is committed if and only if the settle is (I11).
func rollbackUndoesTheSettle(s *suite) {
	s.scratch("business", "n int")
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		c, id := s.one()
		s.unchanged(c.ids, func() {
			tx := s.settleWithWrite(st, c)
			s.ok(tx.rollback())
		})
		equal(s, "business rows", scan[int](s, "SELECT count(*) FROM business"), 0)
		s.expect(id, st.effect, func() { s.settled(st, c.token, c.ids, c.ids, nil, nil) })
	})
}

func commitKeepsBothWrites(s *suite) {
	s.scratch("business", "n int")
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		c, id := s.one()
		s.expect(id, st.effect, func() {
			tx := s.settleWithWrite(st, c)
			s.ok(tx.commit())
		})
		equal(s, "business rows", scan[int](s, "SELECT count(*) FROM business"), 1)
		s.exec("DELETE FROM business")
	})
}

// scratch creates a table of the application for the duration of the test.
func (s *suite) scratch(name, columns string) {
	s.Helper()
	s.exec("CREATE TABLE " + s.db.Schema + "." + name + " (" + columns + ")")
	s.Cleanup(func() {
		if _, err := s.eyes.Exec(context.Background(), "DROP TABLE "+s.db.Schema+"."+name); err != nil {
			s.Error(err)
		}
	})
}

func (s *suite) settleWithWrite(st settle, c claim) *transaction {
	s.Helper()
	tx := s.open()
	s.ok(tx.exec(s.Context(), "INSERT INTO business VALUES (1)"))
	ids, err := st.do(s.Context(), tx.ops, c.token, c.ids)
	s.ok(err)
	s.sameIDs(ids, c.ids)
	return tx
}

// plannerSettings are the caller's own settings, chosen among those that the library changes.
var plannerSettings = []string{"SET LOCAL enable_seqscan = on", "SET LOCAL enable_nestloop = off",
	"SET LOCAL enable_sort = on",
	"SET LOCAL jit = on", "SET LOCAL enable_indexscan = off", "SET LOCAL synchronous_commit = remote_write",
	"SET LOCAL search_path = pg_catalog"}

// recordSettings stores every setting of the transaction in a table, so that the test can read it from outside.
const recordSettings = "INSERT INTO %s.settings SELECT %d, name, setting FROM pg_catalog.pg_settings" +
	" WHERE name LIKE 'enable%%' OR name IN ('jit', 'synchronous_commit', 'search_path', 'plan_cache_mode', " +
	"'transaction_isolation')"

// An operation in the caller's transaction leaves the caller's settings unchanged, even if it is refused.
func settingsAreGivenBack(s *suite) {
	s.scratch("settings", "n int, name text, setting text")
	each(s, s.operations(), func(o operation) string { return o.name }, func(s *suite, o operation) {
		c := s.claimed(2)
		tx := s.open()
		for _, set := range plannerSettings {
			s.ok(tx.exec(s.Context(), set))
		}
		s.ok(tx.exec(s.Context(), fmt.Sprintf(recordSettings, s.db.Schema, 1)))
		s.ok(o.do(s.Context(), tx.ops, c))
		s.ok(tx.exec(s.Context(), fmt.Sprintf(recordSettings, s.db.Schema, 2)))
		s.ok(tx.commit())

		equal(s, "settings seen", scan[bool](s, "SELECT count(*) > 30 FROM settings"), true)
		changed := scan[*string](s, `SELECT string_agg(a.name || ': ' || a.setting || ' became ' || b.setting, ', ')
			FROM settings a JOIN settings b USING (name) WHERE a.n = 1 AND b.n = 2 AND a.setting <> b.setting`)
		if changed != nil {
			s.Fatal(*changed)
		}
		s.exec("DELETE FROM settings")
		s.exec("DELETE FROM $T") // rows that were given back would be claimed by the next operation
	})
}

// An operation is anything that a way can do with a claim.
type operation struct {
	name string
	do   func(context.Context, ops, claim) error
}

func (s *suite) operations() []operation {
	list := []operation{
		{"insert", func(ctx context.Context, o ops, _ claim) error { _, err := o.insert(ctx, s.newRow()); return err }},
		{"claim", func(ctx context.Context, o ops, _ claim) error {
			_, err := o.claim(ctx, workqueue.NewOwnerToken(), lease, 1, s.Lanes[0]...)
			return err
		}},
		{"reap", func(ctx context.Context, o ops, _ claim) error { _, err := o.reap(ctx, 1); return err }},
		{"redrive", func(ctx context.Context, o ops, c claim) error {
			_, err := o.redrive(ctx, c.ids, "")
			return err
		}},
		{"cancel", func(ctx context.Context, o ops, c claim) error {
			_, err := o.cancel(ctx, c.ids, "")
			return err
		}},
		{"sweep", func(ctx context.Context, o ops, _ claim) error { _, err := o.sweep(ctx, 1); return err }},
		{"purge", func(ctx context.Context, o ops, _ claim) error { _, err := o.purgeDone(ctx, 0, 1); return err }},
	}
	for _, st := range s.settles() {
		list = append(list,
			operation{st.name, func(ctx context.Context, o ops, c claim) error {
				_, err := st.do(ctx, o, c.token, c.ids)
				return err
			}},
			operation{st.name + " refused", func(ctx context.Context, o ops, c claim) error {
				_, err := st.do(ctx, o, uuid.New(), c.ids)
				if isRefused(err) {
					return nil
				}
				return err
			}})
	}
	return list
}
