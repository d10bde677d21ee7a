package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// A fetched is what one fetch returned.
type fetched struct {
	ids    []uuid.UUID
	topics []string
	again  float64
	more   bool
	held   string
	cursor string
}

// fetch fetches n rows with further arguments, such as "cursor => $3", and checks the shape of what it gets: the rows
// with their places from 1 on, and one end after them.
func (r *rig) fetch(n int, arguments string, args ...any) (f fetched) {
	r.Helper()
	if arguments != "" {
		arguments = ", " + arguments
	}
	rows, err := r.Eyes.Query(r.Context(), `SELECT entry, place, id, topic, again_in, more, held, cursor, num_nulls(
		locked_until, due_at, created_at, attempts, max_attempts, lost) FROM notes_fetch($1, '60 s', $2`+arguments+")",
		append([]any{workqueue.NewOwnerToken(), n}, args...)...)
	if err != nil {
		r.Fatal(err)
	}
	defer rows.Close()
	ended := false
	for rows.Next() {
		var entry string
		var place *int
		var id *uuid.UUID
		var topic, held, cursor *string
		var again *float64
		var more *bool
		var missing int
		if err := rows.Scan(&entry, &place, &id, &topic, &again, &more, &held, &cursor, &missing); err != nil {
			r.Fatal(err)
		}
		switch {
		case ended:
			r.Fatalf("%s after the end", entry)
		case entry == "row" && *place == len(f.ids)+1 && missing == 0 && again == nil && more == nil && cursor == nil:
			f.ids, f.topics = append(f.ids, *id), append(f.topics, *topic)
		case entry == "end" && place == nil && id == nil && missing == 6:
			ended, f.again, f.more, f.cursor = true, *again, *more, *cursor
			if held != nil {
				f.held = *held
			}
		default:
			r.Fatalf("%s, place %v, id %v, %d are NULL", entry, place, id, missing)
		}
	}
	if err := rows.Err(); err != nil {
		r.Fatal(err)
	}
	if !ended || len(f.ids) > n || f.again < 0 || f.again > 60 || f.more != (f.again == 0) || len(f.cursor) > 8192 {
		r.Fatalf("a fetch of %d gave %d rows, again in %v, more %v, ended %v", n, len(f.ids), f.again, f.more, ended)
	}
	return f
}

func (r *rig) wantFetched(what string, f fetched, want ...uuid.UUID) {
	r.Helper()
	if !slices.Equal(f.ids, want) {
		r.Errorf("%s: got %v, want %v", what, f.ids, want)
	}
}

// noSweep are arguments of a fetch that goes on behind a cursor.
const noSweep = "cursor => $3, sweep => false"

func TestFetchGoesOnBehindItsCursor(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids := r.insertMany("a", 6)
	r.exec("UPDATE notes SET due_at = now() - interval '1 hour' + " +
		"(SELECT count(*) FROM notes AS o WHERE o.id < notes.id) * interval '1 minute'")
	first := r.fetch(2, "")
	r.wantFetched("the first two", first, ids[:2]...)
	if !first.more {
		t.Error("a full fetch says that there is nothing more")
	}
	second := r.fetch(2, noSweep, first.cursor)
	r.wantFetched("the next two", second, ids[2:4]...)
	again := func(id uuid.UUID) { r.exec("UPDATE notes SET status = 0, locked_until = NULL WHERE id = $1", id) }
	again(ids[0])
	rest := r.fetch(9, noSweep, second.cursor)
	r.wantFetched("behind the cursor", rest, ids[4:]...)
	if rest.more || rest.again > 1 {
		t.Errorf("rows may have been passed over: more %v, again in %v", rest.more, rest.again)
	}
	swept := r.fetch(9, "cursor => $3, sweep => true", rest.cursor)
	r.wantFetched("a sweep", swept, ids[0])
	again(ids[1])
	again(ids[3])
	r.wantFetched("nothing was heard", r.fetch(9, noSweep, rest.cursor))
	due := ask[int64](r, "SELECT (extract(epoch FROM due_at) * 1000000)::bigint FROM notes WHERE id = $1", ids[2])
	heard := r.fetch(9, noSweep+", heard => ARRAY['note:1', 'cancel', 'topic', $4, '9999999999999999']", rest.cursor,
		fmt.Sprint(due))
	r.wantFetched("a notification moves back", heard, ids[3])
	front := ask[string](r, "SELECT 'front:' || json_build_object('all', due_at)::text FROM notes WHERE id = $1", ids[0])
	r.wantFetched("so does a front", r.fetch(9, noSweep+", heard => ARRAY[$4]", heard.cursor, front), ids[1])
	again(ids[5])
	r.wantFetched("what is no front asks for a sweep",
		r.fetch(9, noSweep+", heard => ARRAY['front:{\"all\": \"never\"}']", heard.cursor), ids[5])
}

// A fetch that finds less than it may take says when the next row is due, and at most a minute.
func TestFetchSaysWhenToComeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	if f := r.fetch(9, ""); f.more || f.again != 60 {
		t.Errorf("of an empty table: more %v, again in %v", f.more, f.again)
	}
	r.insertRows(workqueue.NewRow{Values: []any{"a", ""}, DueAt: time.Now().Add(20 * time.Second)})
	if f := r.fetch(9, ""); f.again < 15 || f.again > 20 {
		t.Errorf("a row is due in 20 s: again in %v", f.again)
	}
	r.exec("UPDATE notes SET due_at = now() + interval '1 day'")
	if f := r.fetch(9, ""); f.again != 60 {
		t.Errorf("a row is due tomorrow: again in %v", f.again)
	}
}

// In a transaction that has been open for a while, now() is when it began.
func TestFetchSeesWhatIsDueByNow(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]func(*workqueue.Spec){
		"plain": nil, "topics": func(s *workqueue.Spec) { s.Topics.Columns = []string{"topic"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{spec: spec})
			err := pgx.BeginFunc(t.Context(), r.Eyes, func(tx pgx.Tx) error {
				var n int
				err := tx.QueryRow(t.Context(), "SELECT count(*) FROM notes").Scan(&n)
				r.insertRows(workqueue.NewRow{Values: []any{"a", ""}, DueAt: time.Now().Add(time.Millisecond)})
				if err == nil {
					_, err = tx.Exec(t.Context(), "SELECT pg_sleep(0.01)")
				}
				if err == nil {
					err = tx.QueryRow(t.Context(), "SELECT count(id) FROM notes_fetch($1, '60 s', 9)",
						workqueue.NewOwnerToken()).Scan(&n)
				}
				if n != 1 {
					t.Errorf("got %d rows, want the one that became due in the transaction", n)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The sweeps of a loop of fetches come by themselves, and take a small part of the fetches.
func TestFetchesSweepByThemselves(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	late := r.insert("late")[0]
	r.insertMany("a", 100)
	r.exec("UPDATE notes SET due_at = due_at - interval '1 day', status = 1, locked_until = now(), owner_token = id, "+
		"attempts = 1 WHERE id = $1", late)
	f := r.fetch(1, "")
	r.exec("UPDATE notes SET status = 0, locked_until = NULL WHERE id = $1", late)
	pgtest.Await(patience, func() bool {
		f = r.fetch(1, "cursor => $3", f.cursor)
		if len(f.ids) == 0 {
			t.Fatal("the fetches ran out of rows before the sweep came")
		}
		return f.ids[0] == late
	})
	for name, cursor := range map[string]string{
		"of another version": "2 0123456789abcdef what else",
		"of another table":   "1 0123456789abcdef" + f.cursor[18:],
	} {
		r.exec("UPDATE notes SET status = 0, locked_until = NULL WHERE id = $1", late)
		r.wantFetched(name, r.fetch(1, "cursor => $3, sweep => false", cursor), late)
	}
	moved := strings.Fields(f.cursor)
	moved[2] = fmt.Sprint(time.Now().Add(2 * time.Minute).UnixMicro()) // the clock has gone back
	r.exec("UPDATE notes SET status = 0, locked_until = NULL WHERE id = $1", late)
	r.wantFetched("a sweep that lies too far ahead", r.fetch(1, "cursor => $3", strings.Join(moved, " ")), late)
	r.exec("UPDATE notes SET status = 0, locked_until = NULL WHERE id = $1", late)
	moved[2] = fmt.Sprint(time.Now().Add(30 * time.Second).UnixMicro())
	if f := r.fetch(1, "cursor => $3", strings.Join(moved, " ")); slices.Contains(f.ids, late) {
		t.Error("a sweep came before its time")
	}
}

func TestFetchReadsLanesInTheirOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) {
		s.Columns = append(s.Columns, workqueue.Column{Name: "level", Type: "smallint", NotNull: true})
		s.Lanes = []string{"topic", "level"}
	}})
	for range 60 {
		for _, topic := range []string{"a", "b"} {
			for level := range 2 {
				r.insertRows(workqueue.NewRow{Values: []any{topic, "", level}})
			}
		}
	}
	f := r.fetch(130, "'{b,a,b}', '{1,0}'")
	levels := ask[[]int16](r, `SELECT array_agg(n.level ORDER BY u.ord)
		FROM unnest($1::uuid[]) WITH ORDINALITY AS u (id, ord) JOIN notes AS n USING (id)`, f.ids)
	want := slices.Concat(slices.Repeat([]string{"b1"}, 60), slices.Repeat([]string{"b0"}, 60),
		slices.Repeat([]string{"a1"}, 10))
	for i, topic := range f.topics {
		if got := fmt.Sprint(topic, levels[i]); got != want[i] {
			t.Fatalf("row %d is of the lane %s, want %s", i+1, got, want[i])
		}
	}
	// The less urgent lanes have their turns, one fetch in eight.
	turn := 0
	for i := range 24 {
		if f = r.fetch(1, "'{b,a,b}', '{1,0}', cursor => $3", f.cursor); f.topics[0] == "a" {
			if level := ask[int](r, "SELECT level FROM notes WHERE id = $1", f.ids[0]); level == 0 {
				turn = i + 1
			}
		}
	}
	if turn != 23 {
		t.Errorf("the last lane was read first in fetch %d, want 23 after the first", turn)
	}
	if f := r.fetch(9, "'{b}', '{1}', cursor => $3, sweep => false", f.cursor); len(f.ids) != 0 {
		t.Errorf("a cursor of other lanes gave %d rows of a lane that has none", len(f.ids))
	}
	r.insertRows(workqueue.NewRow{Values: []any{"b", "", 1}})
	front := ask[string](r, `SELECT 'front:' || json_build_object(
		left(encode(sha256(convert_to('["b", 1]', 'UTF8')), 'hex'), 16), '1970-01-02T00:00:00Z')::text`)
	f = r.fetch(9, "'{b}', '{1}'")
	r.exec("UPDATE notes SET status = 0, locked_until = NULL WHERE id = $1", f.ids[0])
	r.wantFetched("nothing was heard", r.fetch(9, "'{b}', '{1}', "+noSweep, f.cursor))
	r.wantFetched("the lane's front", r.fetch(9, "'{b}', '{1}', heard => ARRAY[$4], "+noSweep, f.cursor, front),
		f.ids[0])
	var pg interface{ SQLState() string }
	for _, lanes := range []string{"'{b}', '{40000}'", "'{}', '{1}'",
		"'{b}', (SELECT array_agg(i) FROM generate_series(1, 65) AS i)",
		"'{b,c}', (SELECT array_agg(i) FROM generate_series(1, 40) AS i)"} {
		_, err := r.Eyes.Exec(t.Context(), "SELECT notes_fetch('00000000-002a-8000-8000-000000000000', '60 s', 1, "+
			lanes+")")
		if !errors.As(err, &pg) || pg.SQLState() != "22023" {
			t.Errorf("lanes %s: %v", lanes, err)
		}
	}
}

func TestFetchSaysWhatHoldsRows(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: byRule})
	r.exec(strings.NewReplacer("$quota", r.Schema+".quota", "$taken", r.Schema+".taken").Replace(quota))
	r.insertMany("a", 20)
	r.exec("UPDATE quota SET n = 5")
	if f := r.fetch(9, "'a'"); len(f.ids) != 5 || f.more || f.held != "rate" || f.again != 0.02 {
		t.Errorf("of a quota of 5: %d rows, more %v, held %s, again in %v", len(f.ids), f.more, f.held, f.again)
	}
	f := r.fetch(9, "'a'")
	if len(f.ids) != 0 || f.more || f.held != "rate" || f.again != 0.02 {
		t.Errorf("of an empty quota: %d rows, more %v, held %s, again in %v", len(f.ids), f.more, f.held, f.again)
	}
	if n := ask[int](r, "SELECT count(DISTINCT id)::int FROM taken JOIN notes USING (id) WHERE status = 1"); n != 5 {
		t.Errorf("take was told of %d rows, want 5", n)
	}
}

// Rows of a paused topic are set aside, and come back in their order, from where the fetches before have come.
func TestFetchObeysTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Topics.Columns = []string{"topic"} }})
	sick := r.insertMany("sick", 1500)
	well := r.insertMany("well", 10)
	ask[bool](r, "SELECT notes_pause('sick')")
	first := r.fetch(20, "")
	if len(first.ids) != 0 || !first.more {
		t.Errorf("a fetch sets a thousand rows aside: got %d rows, more %v", len(first.ids), first.more)
	}
	second := r.fetch(20, noSweep, first.cursor)
	r.wantFetched("the others", second, well...)
	if second.held != "paused" || second.more {
		t.Errorf("held %q, more %v", second.held, second.more)
	}
	ask[bool](r, "SELECT notes_resume('sick')")
	r.wantFetched("nothing was heard", r.fetch(100, noSweep, second.cursor))
	var got []uuid.UUID
	f := r.fetch(100, "cursor => $3, heard => ARRAY['topic']", second.cursor)
	for got = f.ids; f.more; got = append(got, f.ids...) {
		f = r.fetch(100, noSweep, f.cursor)
	}
	if !slices.Equal(got, sick) || f.held != "" {
		t.Errorf("%d rows came back, in another order or held %q", len(got), f.held)
	}
}

// A client that sits idle in the transaction of its fetch loses its session, as it would lose its lease. Its rows are
// then claimable again.
func TestAClientThatIsIdleAfterAFetchLosesItsSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids := r.insertMany("a", 3)
	bound := func(lease, own string) string {
		t.Helper()
		var got string
		err := pgx.BeginFunc(t.Context(), r.Eyes, func(tx pgx.Tx) error {
			for _, query := range []string{"SET LOCAL idle_in_transaction_session_timeout = '" + own + "'",
				"SELECT FROM notes_fetch('00000000-002a-8000-8000-000000000000', '" + lease + "', 1)"} {
				if _, err := tx.Exec(t.Context(), query); err != nil {
					return err
				}
			}
			if err := tx.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&got); err != nil {
				return err
			}
			return context.Canceled
		})
		if err != context.Canceled {
			t.Fatal(err)
		}
		return got
	}
	for _, c := range []struct{ lease, own, want string }{
		{"30 s", "0", "30s"}, {"1500 ms", "0", "1500ms"}, {"1 day", "0", "1d"}, {"30 s", "1h", "30s"},
		{"30 s", "100ms", "100ms"}, {"30 s", "3min", "30s"},
	} {
		if got := bound(c.lease, c.own); got != c.want {
			t.Errorf("a lease of %s in a session with %s: %s, want %s", c.lease, c.own, got, c.want)
		}
	}
	conn, err := pgx.Connect(t.Context(), r.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, query := range []string{"BEGIN",
		"SELECT FROM " + r.Table.Name() + "_fetch('00000000-002a-8000-8000-000000000000', '1 s', 9)"} {
		if _, err := conn.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	r.wantFetched("beside the idle client", r.fetch(9, ""))
	var f fetched
	r.eventually("the rows are claimable again", func() bool { f = r.fetch(9, ""); return len(f.ids) > 0 })
	r.wantFetched("after its session has ended", f, ids...)
	if _, err := conn.Exec(t.Context(), "COMMIT"); err == nil {
		t.Error("the session goes on")
	}
}
