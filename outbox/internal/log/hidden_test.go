package log_test

import (
	"testing"
	"time"
)

// A producer that may write messages that are scheduled, and not see them, would write the next one of a key before
// them. It is refused, and messages without a key are written.
func TestAProducerDoesNotSeeWhatIsScheduled(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	role := f.as(allRights)
	f.schedule(role, "k", "first", time.Hour)
	f.exec(f.Pool, "ALTER TABLE "+f.name+"_later ENABLE ROW LEVEL SECURITY")
	f.exec(f.Pool, "CREATE POLICY writes ON "+f.name+"_later FOR INSERT WITH CHECK (true)")
	_, err := role.Exec(f.Context(), "SELECT "+f.name+"_append('topic', 'second', 'k')")
	f.refused("append", err, "42501")
	f.append(role, "without a key")
	f.want("s", f.drain("s", 10), "without a key")
	f.want("scheduled", f.scheduled(), "first")
}

// Who does not see all losses is not told that there were none.
func TestLossesThatAreHidden(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	role := f.as(allRights)
	f.exec(f.Pool, "ALTER TABLE "+f.name+"_loss ENABLE ROW LEVEL SECURITY")
	_, err := role.Exec(f.Context(), "SELECT * FROM "+f.name+"_lag()")
	f.refused("lag", err, "42501")
}
