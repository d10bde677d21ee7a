package workqueue

import (
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

// A worker sleeps until the next row that it can claim is due. Rows that wait, that are in progress or that belong to
// other lanes do not wake it.
func TestNextDueIsThatOfARowThatCanBeClaimed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	table := createTable(t, db, Spec{Schema: db.Schema, Table: "rows",
		Columns: []Column{{Name: "topic", Type: "text", NotNull: true}}, Lanes: []string{"topic"}})
	_, err := db.Pool.Exec(t.Context(), `
		INSERT INTO rows (topic, due_at, waiting, status, owner_token, locked_until, attempts) VALUES
			('mine', now() + interval '1 h', true, 0, NULL, NULL, 0),
			('mine', now() + interval '2 h', false, 1, gen_random_uuid(), now() + interval '2 h', 1),
			('elsewhere', now() + interval '3 h', false, 0, NULL, NULL, 0),
			('mine', now() + interval '4 h', false, 0, NULL, NULL, 0),
			('mine', now() + interval '5 h', false, 0, NULL, NULL, 0)`)
	if err != nil {
		t.Fatal(err)
	}
	d := &dueQuestion{lanes: [][]any{{"mine"}}}
	err = table.On(db.Pool).nextDue(t.Context(), d)
	next := d.next
	if err != nil || next == nil {
		t.Fatalf("got %v, %v", next, err)
	}
	if next.In.Round(time.Hour) != 4*time.Hour {
		t.Errorf("it is due in %v, want 4 h", next.In)
	}
}

// A row that comes alone is claimed by one transaction, which also asks when the next row is due. A worker does not
// wake only for a sweep so soon that each such row would cost two transactions.
func TestALoneRowIsClaimedOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	table := createTable(t, db, Spec{Schema: db.Schema, Table: "rows"})
	c := newClaimer(&engine{queue: table.On(db.Pool), dbClock: new(dbClock),
		consumer: consumer{table: table, handling: handling{Lease: time.Minute}, target: table.anyTarget}})
	insert := func(in string) {
		t.Helper()
		if _, err := db.Pool.Exec(t.Context(), "INSERT INTO rows (due_at) VALUES (now() + $1::interval)",
			in); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(want int) {
		t.Helper()
		rows, err := c.claim(t.Context(), 10)
		if err != nil || len(rows) != want {
			t.Fatalf("claimed %d rows, %v, want %d", len(rows), err, want)
		}
	}
	claim(0)
	insert("0")
	insert("1 h")
	c.rewind(time.Now().Add(-time.Minute))
	c.nextSweep = time.Now().Add(time.Minute)
	claim(1)
	if c.answer == nil || c.answer.next == nil || c.answer.next.In.Round(time.Hour) != time.Hour {
		t.Fatalf("with the claim came %+v, want the row that is due in an hour", c.answer)
	}
	c.nextSweep = time.Now()
	next, err := c.nextWake(t.Context())
	if err != nil || next == nil || next.In < sweepPause || next.In > time.Minute {
		t.Errorf("it wakes in %+v, %v, want %v for a sweep alone", next, err, sweepPause)
	}
	if next, err = c.nextDue(t.Context()); err != nil || next == nil || next.In.Round(time.Hour) != time.Hour {
		t.Errorf("asked alone: %+v, %v, want the row that is due in an hour", next, err)
	}
}
