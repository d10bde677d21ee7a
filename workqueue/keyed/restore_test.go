package keyed_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue/keyed"
)

// Rows that are copied with their places, as by a data-only restore, COPY or INSERT … SELECT, keep their order.
func TestCopiedRowsKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	blocks := func(n int) keyed.Rule { return keyed.Ordered{Key: "blocked", OnFailure: keyed.Block} }
	r.insert(row(1, serial("k")), row(10, blocks(10)), row(20, keyed.Limited{Key: "l", MaxRunning: 1}))
	token, ids := r.expect(1, 10, 20)
	failed["fail"](r, token, ids[1:2])
	r.insert(row(2, serial("k")), row(3, serial("k")), row(11, blocks(11)),
		row(21, keyed.Limited{Key: "l", MaxRunning: 1}))
	r.exec("CREATE TABLE dump AS TABLE work; TRUNCATE work, work_key_note; INSERT INTO work SELECT * FROM dump " +
		"ORDER BY n DESC")
	r.expect()
	r.exec("SELECT setval('work_key_seq', 1, false)") // no sequence comes with a logical replication
	r.insert(row(4, serial("k")), row(12, blocks(12)))
	done["ack"](r, token, ids[:1])
	done["ack"](r, token, ids[2:])
	token, ids = r.expect(2, 21)
	done["ack"](r, token, ids)
	r.finish(3, 4)
	r.expect() // 11 and 12 are behind a dead letter
}

// A row whose place leaves none for later rows of its key is refused, whoever writes it. Other keys, and a transaction
// after it, go on.
func TestARowInTheLastPlaceIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("k")), row(2, serial("other")))
	const lastPlace int64 = 1 << 62
	const last = "INSERT INTO work (n, concurrency_key, key_limit, key_policy, key_seq) SELECT 3, concurrency_key, " +
		"key_limit, key_policy, $1 FROM work WHERE n = 1"
	for _, place := range []int64{lastPlace + 1, math.MaxInt64} {
		_, err := r.pool.Exec(t.Context(), last, place)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || !strings.Contains(pg.Message, "key_seq must be at most") {
			t.Errorf("place %d: %v", place, err)
		}
	}
	r.insert(row(4, serial("other")))
	token, ids := r.expect(1, 2)
	done["ack"](r, token, ids)
	r.finish(4)
	r.exec(strings.Replace(last, "n = 1", "n = 2", 1), lastPlace)
	r.insert(row(5, serial("other")))
	r.finish(3, 5)
}

// If a live row is the last of its key, a new row comes after it, also once the live row is a dead letter.
func TestASequenceBehindItsTableLetsNobodyPast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec("SELECT setval('work_key_seq', 1000)")
	key := keyed.Ordered{Key: "k", OnFailure: keyed.Block}
	r.insert(row(1, key))
	token, ids := r.expect(1)
	r.exec("SELECT setval('work_key_seq', 1, false)")
	r.insert(row(2, key))
	failed["fail"](r, token, ids)
	r.expect()
	r.redrive(ids...)
	r.finish(1, 2)
}

// A dead letter may be the only row of its key.
func TestASequenceBehindADeadLetterLetsNobodyPast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec("SELECT setval('work_key_seq', 1000)")
	key := keyed.Ordered{Key: "k", OnFailure: keyed.Block}
	r.insert(row(1, key))
	token, ids := r.expect(1)
	failed["fail"](r, token, ids)
	r.exec("SELECT setval('work_key_seq', 1, false)")
	r.insert(row(2, key))
	r.expect()
	r.redrive(ids...)
	r.finish(1, 2)
}
