package gate_test

import (
	"testing"

	"github.com/txwork/txwork/workqueue/gate"
)

// A row that waits for something else, such as a join, comes to its gate when that releases it.
func TestReleasedRowsComeToTheirGate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	held := row(1, serial("a"))
	held.Waiting = true
	r.insert(held)
	r.insert(row(2, serial("a")))
	r.sweep()
	token, ids := r.expect(2)
	r.exec("UPDATE work SET waiting = false WHERE n = 1")
	r.sweep()
	r.expect()
	done["ack"](r, token, ids)
	r.expect(1)
}

// A join or the like may hold rows of any sort.
func TestAReleasedRowWithoutAGateEntersNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	waits := row(1, nil)
	waits.Waiting = true
	r.insert(waits)
	r.exec("UPDATE work SET waiting = false")
	r.expect(1)
}

// A row that waits for a join has not come to its gate, whoever else writes to it.
func TestARowThatIsHeldDoesNotComeToItsGate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, g := range []*gate.Gate{serial("s"), {Key: "l", Limit: 1}} {
		held := row(i, g)
		held.Waiting = true
		r.insert(held)
	}
	r.exec("UPDATE work SET waiting = true")
	r.sweep()
	r.expect()
	r.exec("UPDATE work SET waiting = false")
	r.sweep()
	r.expect(0, 1)
}

// A trigger of an application that fails a row in the moment in which a join releases it: the row never came to its
// gate, and must not stand there as a dead letter that blocks the key.
func TestARowThatEndsBeforeItsGateBlocksNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`CREATE FUNCTION veto() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			UPDATE work SET status = 3, completed_at = now(), failed_at = now() WHERE id = NEW.id;
			RETURN NULL;
		END $$;
		CREATE TRIGGER a_veto AFTER UPDATE OF waiting ON work
		FOR EACH ROW WHEN (OLD.waiting AND NOT NEW.waiting AND NEW.gate_seq IS NULL) EXECUTE FUNCTION veto()`)
	held := row(1, &gate.Gate{Key: "k", OnFailure: gate.Block})
	held.Waiting = true
	r.insert(held)
	r.exec("UPDATE work SET waiting = false WHERE n = 1")
	r.insert(row(2, serial("k")))
	r.sweep()
	r.expect(2)
}
