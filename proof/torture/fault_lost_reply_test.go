//go:build unix

package torture

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
)

// A forgetful client gets an error although the server has committed.
func TestAForgetfulClient(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), "CREATE TABLE n (n int)"); err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	loseReplies(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for n := range 100 * cutOneIn {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO n VALUES ($1)", n)
			return err
		})
		if err == nil {
			continue
		}
		var there bool
		scanned := db.Pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM n WHERE n = $1)", n).Scan(&there)
		if scanned != nil || !there || outcomeOfCommit(err) != Maybe {
			t.Errorf("after %q the row is there: %v, error %v", err, there, scanned)
		}
		return
	}
	t.Error("no reply was lost")
}
