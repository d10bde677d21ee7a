package workqueue

import (
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

// A worker sleeps until the next row that it could claim is due: rows that wait, that run, or that other lanes have do not
// wake it.
func TestNextDueIsThatOfARowThatCanBeClaimed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	table := createTable(t, db, Spec{Schema: db.Schema, Table: "rows", Columns: []Column{{Name: "topic", Type: "text", NotNull: true}}, Lanes: []string{"topic"}})
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
	next, _, err := table.On(db.Pool).nextDue(t.Context(), nil, [][]any{{"mine"}})
	if err != nil || next == nil {
		t.Fatalf("got %v, %v", next, err)
	}
	if next.In.Round(time.Hour) != 4*time.Hour {
		t.Errorf("it is due in %v, want 4 h", next.In)
	}
}
