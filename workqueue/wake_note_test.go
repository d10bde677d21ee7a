package workqueue_test

import (
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
)

// A trigger of a domain of one's own ends with this statement. A worker says in its transaction that it folds by
// itself: then the note need not be announced.
func TestATriggersNoteIsAnnouncedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.exec("CREATE TABLE " + r.Schema + `.effect (id integer);
		CREATE FUNCTION ` + r.Schema + `.noted() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			` + r.Spec.AnnounceNote() + `
			RETURN NULL;
		END $$;
		CREATE TRIGGER noted AFTER INSERT ON ` + r.Schema + ".effect FOR EACH ROW EXECUTE FUNCTION " + r.Schema +
		".noted()")
	next := pgtest.Listen(t, r.Eyes, r.Table.Name())
	own := "SELECT set_config('txwork.folds', '" + r.Table.Name() + "', true); "
	insert := "INSERT INTO " + r.Schema + ".effect SELECT generate_series(1, 3); "
	r.exec("BEGIN; " + own + insert + "COMMIT")
	r.exec("BEGIN; " + insert + "NOTIFY \"" + r.Table.Name() + "\", 'end'; COMMIT")
	if got := next().Payload; !strings.HasPrefix(got, "note:") {
		t.Errorf("the first notification is %q", got)
	}
	if got := next().Payload; got != "end" {
		t.Errorf("three notes of one transaction are announced again: %q", got)
	}
}
