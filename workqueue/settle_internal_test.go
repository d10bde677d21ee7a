package workqueue

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
)

// A process may lose a row, claim it again, and finish both claims in one batch, with others between them.
func TestStaleClaimIsToldBesideTheCurrentOne(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]Spec{"retained": {Table: "rows"}, "deleted": {Table: "rows", DeleteDone: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			spec.Schema = db.Schema
			table := createTable(t, db, spec)
			q := table.On(db.Pool)
			id := insertOne(t, db, table)
			stale, current := NewOwnerToken(), NewOwnerToken()
			claimOne(t, q, stale)
			if _, err := db.Pool.Exec(t.Context(), "UPDATE "+db.Schema+
				".rows SET status = 0, owner_token = NULL, locked_until = NULL"); err != nil {
				t.Fatal(err)
			}
			claimOne(t, q, current)

			other, another := insertOne(t, db, table), NewOwnerToken()
			claimOne(t, q, another)

			ack := &Outcome{kind: outcomeAck}
			batch := []*settlement{{claimRef: claimRef{id, stale}, outcome: ack},
				{claimRef: claimRef{other, another}, outcome: ack}, {claimRef: claimRef{id, current}, outcome: ack}}
			changed, err := q.settle(t.Context(), batch, onlyTry)

			var refused *SettleError
			if !slices.Contains(changed.ids, id) || !slices.Contains(changed.ids, other) || len(changed.ids) != 2 ||
				!errors.As(err, &refused) || len(refused.Lost)+len(refused.Gone) != 1 {
				t.Errorf("changed %v, error %v; want each row changed once and the stale claim refused", changed, err)
			}
		})
	}
}

func createTable(t *testing.T, db *pgtest.DB, spec Spec) *Table {
	t.Helper()
	table, err := Open(spec, Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	up, _, err := spec.DDL()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), up); err != nil {
		t.Fatal(err)
	}
	return table
}

func insertOne(t *testing.T, db *pgtest.DB, table *Table) (id uuid.UUID) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		inserted, err := table.Insert(t.Context(), Pgx(tx), NewRow{})
		if err == nil {
			id = inserted[0].ID
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func claimOne(t *testing.T, q *Queue, owner uuid.UUID) {
	t.Helper()
	rows, err := q.Claim(t.Context(), owner, time.Minute, 1)
	if err != nil || len(rows) != 1 {
		t.Fatalf("claimed %v, %v", rows, err)
	}
}

// A kind that is only half described would settle its rows by an empty statement, or as another kind. Each is guarded
// by the token of its claim, leads to the state that its line says, and leaves no done row in tables that delete them.
func TestEveryKindOfOutcome(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]Spec{"retained": {Table: "rows"}, "deleted": {Table: "rows", DeleteDone: true}} {
		for k := range outcomeKinds {
			t.Run(fmt.Sprintf("%s/%d %v", name, k, k), func(t *testing.T) {
				t.Parallel()
				db, spec := pgtest.New(t), spec
				spec.Schema = db.Schema
				table := createTable(t, db, spec)
				q, id, token := table.On(db.Pool), insertOne(t, db, table), NewOwnerToken()
				claimOne(t, q, token)
				state := func() (s Status) {
					s = -1
					err := db.Pool.QueryRow(t.Context(), "SELECT status FROM "+db.Schema+".rows").Scan(&s)
					if err != nil && !errors.Is(err, pgx.ErrNoRows) {
						t.Fatal(err)
					}
					return s
				}
				o := &Outcome{kind: k, delay: unnamedDelay, cause: errors.New("why")}
				var refused *SettleError
				_, err := q.settle(t.Context(), settleAll(uuid.New(), []uuid.UUID{id}, o), onlyTry)
				if !errors.As(err, &refused) || !slices.Equal(refused.Lost, []uuid.UUID{id}) || state() != InProgress {
					t.Errorf("by another token: %v, and the row is %v; want that the lease is lost", err, state())
				}
				done, err := q.settle(t.Context(), settleAll(token, []uuid.UUID{id}, o), onlyTry)
				if err != nil || len(done.rows) != 1 || done.rows[0].became != k.String() || k.String() == "" {
					t.Errorf("settled: %+v, %v; want one %q", done.rows, err, k)
				}
				want := outcomes[k].ends
				if spec.DeleteDone && want == Done {
					want = -1
				}
				if got := state(); got != want || got != -1 && !k.leadsTo(got) || k.leadsTo(InProgress) {
					t.Errorf("the row is %v afterwards, want %v", got, want)
				}
			})
		}
	}
}
