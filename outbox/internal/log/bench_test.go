package log_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox/internal/log"
)

// What a message costs, from the statements alone:
//
//	go test -run - -bench . -benchtime 100000x ./outbox/internal/log
func BenchmarkLog(b *testing.B) {
	db := pgtest.New(b)
	up, _, err := log.DDL(db.Schema)
	if err != nil {
		b.Fatal(err)
	}
	db.Define(b, up)
	name := db.Schema + ".outbox_log"
	ctx := b.Context()
	exec := func(sql string, args ...any) {
		b.Helper()
		if _, err := db.Pool.Exec(ctx, sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	const each = 1000
	b.Run("append one", func(b *testing.B) {
		for b.Loop() {
			exec("SELECT " + name + "_append('topic', 'thirty bytes of a payload here')")
		}
	})
	b.Run("append many", func(b *testing.B) { // a message
		for done := 0; done < b.N; done += each {
			exec("INSERT INTO "+name+" (topic, payload) SELECT 'topic', 'thirty bytes of a payload here' "+
				"FROM generate_series(1, $1)", min(each, b.N-done))
			exec("CALL " + name + "_tick()")
		}
	})
	b.Run("tick without news", func(b *testing.B) {
		for b.Loop() {
			exec("CALL " + name + "_tick()")
		}
	})
	b.Run("fetch without news", func(b *testing.B) {
		exec("SELECT " + name + "_subscribe('idle')")
		for b.Loop() {
			if _, err := fetch(ctx, db.Pool, name, "idle", uuid.New(), lease, each); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("drain", func(b *testing.B) { // a message
		exec("DELETE FROM " + name + "_subscription")
		exec("SELECT " + name + "_subscribe('all', start => '-infinity')")
		n, token := 0, uuid.New()
		for b.Loop() {
			if n > 0 {
				n--
				continue
			}
			p, err := fetch(ctx, db.Pool, name, "all", token, lease, each)
			if err != nil {
				b.Fatal(err)
			}
			if p.upto == 0 {
				b.StopTimer()
				exec("UPDATE " + name + "_position SET seen = ROW(0, 0, 0, '{}', 0)")
				b.StartTimer()
				continue
			}
			n = len(p.messages)
			result, err := settle(ctx, db.Pool, name, "all", token, p.upto)
			if err != nil {
				b.Fatal(err)
			}
			if result == "ended" {
				token = uuid.New()
			}
		}
	})
}
