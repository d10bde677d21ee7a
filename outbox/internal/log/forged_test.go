package log_test

import (
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sqltext"
)

// A row whose id or number is not its writer's would never be in a batch, or would hide others.
func TestAMessageCannotBeForged(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "real")
	const checked, undrawn = "23514", "55000"
	for what, try := range map[string]struct{ sql, code string }{
		"an id of the future":     {"(xid, topic, payload) VALUES (9223372036854775806, 't', '')", checked},
		"an id of the past":       {"(xid, topic, payload) VALUES (3, 't', '')", checked},
		"a copy":                  {"SELECT * FROM " + f.name, checked},
		"a copy with the numbers": {"(seq, topic, payload) SELECT seq, topic, payload FROM " + f.name, checked},
		"a number of another session": {"(seq, topic, payload) VALUES ((SELECT max(seq) FROM " + f.name + "), 't', '')",
			checked},
		"no topic":                           {"(topic, payload) VALUES (NULL, '')", "23502"},
		"a slot that the ring does not have": {"(slot, topic, payload) VALUES (100, 't', '')", checked},
	} {
		tx := f.begin()
		f.exec(tx, "SELECT nextval('"+f.name+"_seq'), nextval('"+f.name+"_seq')")
		_, err := tx.Exec(f.Context(), "INSERT INTO "+f.name+" "+try.sql)
		f.refused(what, err, try.code)
		f.ok(tx.Rollback(f.Context()))
	}
	fresh := pgtest.NewPool(t, f.DB)
	_, err := fresh.Exec(f.Context(), "INSERT INTO "+f.name+" (seq, topic, payload) VALUES (1, 't', '')")
	f.refused("a number, by a session that has drawn none", err, undrawn)
	_, err = f.Pool.Exec(f.Context(), "UPDATE "+f.name+" SET topic = 'changed'")
	f.refused("a change", err, checked)
	f.want("what was written", f.drain("s", 10), "real")
}

// What SQL and COPY write is like what append writes, in any number of rows.
func TestMessagesBySQLAndCopy(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.exec(f.Pool, "INSERT INTO "+f.name+" (topic, payload) SELECT 't', ('i' || i)::bytea "+
		"FROM generate_series(1, 3000) AS i")
	f.exec(f.Pool, "INSERT INTO "+f.name+" (topic, payload) VALUES ('t', 'v1'), ('t', 'v2')")
	rows := make([][]any, 3000)
	for i, p := range numbered("c", 1, len(rows)) {
		rows[i] = []any{"t", []byte(p)}
	}
	_, err := f.Pool.CopyFrom(f.Context(), pgx.Identifier(strings.Split(f.name, ".")), []string{"topic", "payload"},
		pgx.CopyFromRows(rows))
	f.ok(err)
	want := append(numbered("i", 1, 3000), "v1", "v2")
	f.want("all", f.drain("s", 1000), append(want, numbered("c", 1, 3000)...)...)
}

func TestWhatAnAppendRefuses(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	for what, args := range map[string][]any{
		"no topic":        {nil, []byte{}, nil},
		"an empty topic":  {"", []byte{}, nil},
		"a long topic":    {strings.Repeat("t", 1<<10), []byte{}, nil},
		"no payload":      {"t", nil, nil},
		"a large payload": {"t", make([]byte, 1<<20+1), nil},
		"a long key":      {"t", []byte{}, strings.Repeat("k", 256)},
	} {
		_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_append($1, $2, $3)", args...)
		f.refused(what, err, "22023")
	}
}

// Ids beyond 32 bits, and numbers at the end of theirs, are ids and numbers like others.
func TestLargeNumbers(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.exec(f.Pool, "SELECT "+f.name+"_shift($1)", int64(1)<<33)
	f.exec(f.Pool, "SELECT setval('"+f.name+"_seq', $1)", int64(1)<<60)
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('s', start => '-infinity')")
	long := f.begin()
	f.append(long, "long")
	f.append(f.Pool, "a", "b")
	f.want("first", f.drain("s", 1), "a", "b")
	f.ok(long.Commit(f.Context()))
	f.append(f.Pool, "c")
	f.want("then", f.drain("s", 1), "long", "c")
	if xid := value[int64](f, f.Pool, "SELECT min(xid) FROM "+f.name); xid <= math.MaxUint32 {
		t.Errorf("the least id is %d: it has no more than 32 bits", xid)
	}
}

// A transaction that writes one keyed message after another is refused before it has taken the locks of the whole
// server. One statement in 500 looks.
func TestATransactionWritesABoundedNumberOfKeys(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	tx := f.begin()
	f.exec(tx, "SELECT pg_advisory_xact_lock(g) FROM generate_series(1, 1 + "+sqltext.MaxTurns+") AS g")
	for _, call := range []string{"append('topic', 'x'::bytea)", "turn('k')",
		"append('topic', 'x'::bytea, 'k', scheduled_at => now() + interval '1 day')"} {
		_, err := tx.Exec(f.Context(), "SAVEPOINT s")
		f.ok(err)
		_, err = tx.Exec(f.Context(), "SELECT "+f.name+"_"+call+" FROM generate_series(1, 20000)")
		f.refused(call+" in a transaction with too many locks", err, "54000")
		f.exec(tx, "ROLLBACK TO s")
	}
}

// A cancel of more keys than that is refused before it has taken a lock.
func TestACancelOfTooManyKeysIsRefused(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.exec(f.Pool, "INSERT INTO "+f.name+"_later (id, due_at, scheduled_at, ordered, topic, key, payload) "+
		"SELECT gen_random_uuid(), now(), now(), true, 't', n, '' FROM generate_series(0, "+sqltext.MaxTurns+") AS n")
	cancel := "SELECT count(*) FROM " + f.name + "_cancel(ARRAY(SELECT id FROM " + f.name + "_later LIMIT $1))"
	_, err := f.Pool.Exec(f.Context(), cancel, 10_000)
	f.refused("a cancel of too many keys", err, "54000")
	if n := value[int](f, f.Pool, cancel, 100); n != 100 {
		t.Errorf("%d messages were cancelled, want 100", n)
	}
}

// A message that was not stored is not taken for one that was.
func TestAMessageThatIsSuppressed(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.exec(f.Pool, `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	f.exec(f.Pool, "CREATE TRIGGER swallow BEFORE INSERT ON "+f.name+" FOR EACH ROW EXECUTE FUNCTION swallow()")
	_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_append('topic', 'x'::bytea)")
	f.refused("a message that a trigger suppresses", err, "55000")
}
