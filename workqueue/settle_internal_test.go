package workqueue

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
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
			stale, current := uuid.New(), uuid.New()
			claimOne(t, q, stale)
			if _, err := db.Pool.Exec(t.Context(), "UPDATE "+db.Schema+
				".rows SET status = 0, owner_token = NULL, locked_until = NULL"); err != nil {
				t.Fatal(err)
			}
			claimOne(t, q, current)

			other, another := insertOne(t, db, table), uuid.New()
			claimOne(t, q, another)

			ack := &Outcome{kind: outcomeAck}
			batch := []*settlement{{claimRef: claimRef{id, stale}, outcome: ack},
				{claimRef: claimRef{other, another}, outcome: ack}, {claimRef: claimRef{id, current}, outcome: ack}}
			changed, err := q.settle(t.Context(), batch, triedOnce)

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

// A kind that is only half described would settle its rows by an empty statement, or as another kind.
func TestEveryKindOfOutcome(t *testing.T) {
	t.Parallel()
	words := []string{telemetry.OutcomeAck, telemetry.OutcomeAbandon, telemetry.OutcomeSnooze, telemetry.OutcomeLeave,
		telemetry.OutcomeRelease, telemetry.OutcomeFail, telemetry.OutcomeCancel}
	settles := renderStatements(Spec{Schema: "s", Table: "rows"}).settles
	for k := range outcomeKinds {
		if o := outcomes[k]; o.statement == "" || settles[k].Text == "" || !slices.Contains(words, o.name) {
			t.Errorf("kind %d is %+v: give it a word of telemetry and a file of sql, see docs/architecture.md", k, o)
		}
		if !k.leadsTo(outcomes[k].ends) || k.leadsTo(InProgress) {
			t.Errorf("kind %d, %v, leads to InProgress, or not to its own end", k, k)
		}
	}
}
