package costs_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/migrations"
)

// TestABeatIsHeapOnly has 40 processes beat 50 times each, and counts the updates that write to an index, the pages of
// the table after that, and the write-ahead log of a beat.
func TestABeatIsHeapOnly(t *testing.T) {
	const processes, rounds = 40, 50
	l := newLab(t)
	m, err := migrations.New(l.db, migrations.Options{Domains: []migrations.Domain{migrations.Reaper},
		Logger: slog.New(slog.DiscardHandler)})
	l.ok(err)
	_, err = m.Up(l.Context())
	l.ok(err)
	l.exec("CREATE TABLE txwork.jobs ()") // counts name tables that there are
	const serves = `[{"table": "jobs", "lanes": {"queue": ["default"], "priority": [1, 2, 3]}, "concurrency": 10},
		{"table": "outbox", "concurrency": 20}]`
	pool := l.watched()
	beats := func(n int) {
		for range n {
			for p := range processes {
				_, err := pool.Exec(l.Context(), "CALL txwork.process_beat($1, 'host/1', 'go1.26', 'v1.0.0', $2::text::jsonb)",
					1<<40+p, serves)
				l.ok(err)
			}
		}
	}
	beats(1)
	start := l.wal()
	beats(rounds)
	wal := (l.wal() - start) / (processes * rounds)
	pool.Close()
	l.quiet()
	all, hot := l.updates("txwork.process")
	pages := l.count("SELECT pg_relation_size('txwork.process') / 8192")
	flush, read := l.flush()
	t.Logf("a flush of five lanes takes %d bytes of log, and %d bytes more until it is history", flush, read)
	if flush > flushWAL || read > mergeWAL {
		t.Errorf("a flush writes %d and %d bytes of log, want at most %d and %d", flush, read, flushWAL, mergeWAL)
	}
	t.Logf("%d of %d beats are heap-only, %d pages, %d bytes of log a beat", hot, all, pages, wal)
	if all != processes*rounds || hot != all {
		t.Errorf("%d of %d beats are heap-only, want all %d", hot, all, processes*rounds)
	}
	if pages > beatPages || wal > beatWAL {
		t.Errorf("%d pages and %d bytes of log a beat, want at most %d and %d", pages, wal, beatPages, beatWAL)
	}
}

// flush is the write-ahead log of a beat with the counts of five lanes, and of adding them to the history.
func (l *lab) flush() (flush, merge int64) {
	const processes, lanes = 20, 5
	rows := make([]history.Row, lanes)
	for i := range rows {
		rows[i] = history.Row{Table: "jobs", Lane: fmt.Sprint("queue ", i), Done: 1000, Retried: 10,
			Waits: make([]int64, 12), Runs: make([]int64, 20)}
		for n := range 6 {
			rows[i].Waits[6+n], rows[i].Runs[14+n] = 150, 150
		}
	}
	counts, err := json.Marshal(rows)
	l.ok(err)
	for number := 1; number <= 2; number++ { // the first makes the rows of the minute
		start := l.wal()
		for p := range processes {
			_, err := l.db.Exec(l.Context(), "CALL txwork.process_beat($1, 'host/1', 'go1.26', 'v1.0.0', '[]', "+
				"$2::text::jsonb, $3)", 1<<40+p, string(counts), number)
			l.ok(err)
		}
		flushed := l.wal()
		_, err = l.db.Exec(l.Context(), "SELECT txwork.history_merge('{jobs}')")
		l.ok(err)
		flush, merge = (flushed-start)/processes, (l.wal()-flushed)/processes
	}
	return flush, merge
}
