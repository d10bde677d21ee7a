package keyed_test

import (
	"testing"

	"github.com/txwork/txwork/workqueue/keyed"
)

// A row that waits for something else, such as a join, enters its key when that releases it.
func TestReleasedRowsComeToTheirKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(held(1, serial("a")))
	r.insert(row(2, serial("a")))
	token, ids := r.expect(2)
	r.exec("UPDATE work SET waiting = false WHERE n = 1")
	r.expect()
	done["ack"](r, token, ids)
	r.expect(1)
}

// A join may hold rows without a key, too.
func TestAReleasedRowWithoutAKeyWaitsForNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(held(1, nil))
	r.exec("UPDATE work SET waiting = false")
	r.expect(1)
}

// A row that waits for a join does not enter its key when something else writes to it.
func TestARowThatIsHeldDoesNotComeToItsKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(held(0, serial("s")), held(1, keyed.Limited{Key: "l", MaxRunning: 1}))
	r.exec("UPDATE work SET waiting = true")
	r.expect()
	r.exec("UPDATE work SET waiting = false")
	r.expect(0, 1)
}

// A trigger of an application fails a row at the moment when a join releases it. The row never entered its key, so it
// must not block the key as a dead letter.
func TestARowThatEndsBeforeItsKeyBlocksNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`CREATE FUNCTION veto() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			UPDATE work SET status = 3, completed_at = now(), failed_at = now() WHERE id = NEW.id;
			RETURN NULL;
		END $$;
		CREATE TRIGGER a_veto AFTER UPDATE OF waiting ON work
		FOR EACH ROW WHEN (OLD.waiting AND NOT NEW.waiting AND NEW.key_seq IS NULL) EXECUTE FUNCTION veto()`)
	r.insert(held(1, keyed.Ordered{Key: "k", OnFailure: keyed.Block}))
	r.exec("UPDATE work SET waiting = false WHERE n = 1")
	r.insert(row(2, serial("k")))
	r.expect(2)
}
