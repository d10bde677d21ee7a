package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

func TestAMessageIsProcessedOnce(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	first := f.process(key("1"))
	if first.Answer != inbox.Processed || first.Status != workqueue.Done {
		t.Errorf("first: got %+v", first)
	}
	if again := f.process(key("1")); again != (inbox.Result{Answer: inbox.Duplicate, ID: first.ID,
		Status: workqueue.Done}) {
		t.Errorf("again: got %+v", again)
	}
	if n := f.effects("1"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	r := f.row(first.ID)
	if r.Attempts != 1 || r.HasPayload || r.Hash != nil || r.Headers != nil {
		t.Errorf("the row is %+v, want one attempt and nothing but the key", r)
	}
}

func TestTheKeyIsConsumerAndSourceAndMessage(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	longest := strings.Repeat("ö", 127) + "x"
	for _, k := range []inbox.Key{
		key("a"), key("A"), key("a "),
		{Consumer: "shipping", Source: "shop", MessageID: "a"},
		{Consumer: "billing", Source: "shop2", MessageID: "a"},
		{Consumer: "billing,shop", Source: "x", MessageID: "a"},
		{Consumer: "billing", Source: "shop,x", MessageID: "a"},
		{Consumer: longest, Source: longest, MessageID: longest},
	} {
		if got := f.process(k); got.Answer != inbox.Processed {
			t.Errorf("%+v: got %+v", k, got)
		}
	}
}

func TestBodiesAreCompared(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	with := func(id, body string) inbox.Key { k := key(id); k.Body = []byte(body); return k }
	hashed := func(id, body string) inbox.Key { k := key(id); k.BodyHash = hash(body); return k }
	first := f.process(with("1", "ten euros"))
	f.process(key("2"))
	for name, c := range map[string]struct {
		key  inbox.Key
		want inbox.Answer
	}{
		"same body":               {with("1", "ten euros"), inbox.Duplicate},
		"same hash":               {hashed("1", "ten euros"), inbox.Duplicate},
		"other body":              {with("1", "ten dollars"), inbox.HashMismatch},
		"empty body":              {with("1", ""), inbox.HashMismatch},
		"other hash":              {hashed("1", "ten dollars"), inbox.HashMismatch},
		"not said now":            {key("1"), inbox.Duplicate},
		"not said the first time": {with("2", "ten euros"), inbox.Duplicate},
	} {
		if got := f.process(c.key); got.Answer != c.want {
			t.Errorf("%s: got %v, want %v", name, got.Answer, c.want)
		}
	}
	if r := f.row(first.ID); !bytes.Equal(r.Hash, hash("ten euros")) || r.HasPayload {
		t.Errorf("the row is %+v: want the hash, and no body unasked", r)
	}
	if n := f.effects("1"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func TestABodyIsKeptOnRequest(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	k := key("1")
	k.Body, k.KeepBody = []byte{0, 1, 0xff}, true
	if r := f.row(f.process(k).ID); !bytes.Equal(r.Payload, k.Body) {
		t.Errorf("kept %v", r.Payload)
	}
}

func TestAnErrorRollsEverythingBack(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	broken := errors.New("broken")
	result, err := f.box.Process(t.Context(), f.Pool, key("1"), func(ctx context.Context, tx pgx.Tx) error {
		if err := effect("1")(ctx, tx); err != nil {
			return err
		}
		return broken
	})
	if err != broken || result != (inbox.Result{}) {
		t.Errorf("got %+v, %v: want the handler's own error", result, err)
	}
	f.expectFree("1")
}

// expectFree checks that nothing is left of a message, and that it can be processed.
func (f *fixture) expectFree(id string) {
	f.Helper()
	if n := f.effects(id); n != 0 {
		f.Errorf("%d effects are left", n)
	}
	if got := f.process(key(id)); got.Answer != inbox.Processed {
		f.Errorf("the key is not free: got %+v", got)
	}
	if n := f.effects(id); n != 1 {
		f.Errorf("%d effects, want 1", n)
	}
}

func TestAPanicRollsEverythingBackAndGoesOn(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	var recovered any
	func() {
		defer func() { recovered = recover() }()
		_, _ = f.box.Process(t.Context(), f.Pool, key("1"), func(ctx context.Context, tx pgx.Tx) error {
			_ = effect("1")(ctx, tx)
			panic("at the disco")
		})
	}()
	if recovered != "at the disco" {
		t.Errorf("recovered %v", recovered)
	}
	if n := f.Pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still in use", n)
	}
	f.expectFree("1")
}

func TestAFailedStatementCannotBePassedOver(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	_, err := f.box.Process(t.Context(), f.Pool, key("1"), func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "its error was not returned") ||
		errors.Is(err, inbox.ErrCommitUnknown) {
		t.Errorf("got %v", err)
	}
	f.expectFree("1")
}

func TestAConstraintThatRefusesTheCommit(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	f.exec("CREATE TABLE late (id text UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	_, err := f.box.Process(t.Context(), f.Pool, key("1"), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO late VALUES ('x'), ('x')")
		return err
	})
	if err == nil || errors.Is(err, inbox.ErrCommitUnknown) {
		t.Errorf("got %v, want an error that knows the transaction was refused", err)
	}
	f.expectFree("1")
}

func TestTheHandlerCannotEndTheTransaction(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	_, err := f.box.Process(t.Context(), f.Pool, key("1"), func(ctx context.Context, tx pgx.Tx) error {
		_ = effect("1")(ctx, tx)
		return tx.Commit(ctx)
	})
	if err == nil || !strings.Contains(err.Error(), "Process commits") {
		t.Errorf("commit: got %v", err)
	}
	_, err = f.box.Process(t.Context(), f.Pool, key("1"), func(ctx context.Context,
		tx pgx.Tx) error {
		return tx.Rollback(ctx)
	})
	if err == nil || !strings.Contains(err.Error(), "Process rolls the transaction back") {
		t.Errorf("rollback: got %v", err)
	}
	f.expectFree("1")
}

func TestAMessageThatWasReceived(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	for name, c := range map[string]struct {
		status string
		want   inbox.Result
	}{
		"ready": {"status = 0", inbox.Result{Answer: inbox.InProgress, Status: workqueue.Ready}},
		"in progress": {"status = 1, attempts = 1, locked_until = now() + '1 hour', owner_token = gen_random_uuid()",
			inbox.Result{Answer: inbox.InProgress, Status: workqueue.InProgress}},
		"done": {"status = 2, completed_at = now()", inbox.Result{Answer: inbox.Duplicate,
			Status: workqueue.Done}},
		"dead letter": {"status = 3, completed_at = now(), failed_at = now()", inbox.Result{Answer: inbox.Duplicate,
			Status: workqueue.Failed}},
	} {
		c.want.ID = f.receive(message(name, "x"))[0].ID
		f.exec("UPDATE "+f.table+" SET "+c.status+" WHERE id = $1", c.want.ID)
		if got := f.process(key(name)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
		k := key(name)
		k.Body = []byte("y")
		if got := f.process(k); got.Answer != inbox.HashMismatch || got.ID != c.want.ID {
			t.Errorf("%s with another body: got %+v", name, got)
		}
		if n := f.effects(name); n != 0 {
			t.Errorf("%s: %d effects", name, n)
		}
	}
}

func TestProcessIsReadCommittedWhateverTheSessionSays(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	config := f.Pool.Config()
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	var level string
	_, err = f.box.Process(t.Context(), pool, key("1"), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT current_setting('transaction_isolation')").Scan(&level)
	})
	if err != nil || level != "read committed" {
		t.Errorf("got %q, %v", level, err)
	}
	if _, err := f.box.Purge(t.Context(), pool); err != nil {
		t.Error(err)
	}
}

// The settings that the inbox needs for its own statement must not reach the handler's.
func TestTheHandlersSettingsAreItsOwn(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	var got string
	_, err := f.box.Process(t.Context(), f.Pool, key("1"), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx,
			`SELECT concat_ws(' ', current_setting('lock_timeout'), current_setting('enable_seqscan'),
			current_setting('search_path'), coalesce(current_setting('txwork.announce', true), ''))`).Scan(&got)
	})
	if want := fmt.Sprintf("0 on %s ", f.Schema); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestAReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	if _, err := f.Pool.Exec(t.Context(), pgtest.RefusingWrites("inbox")); err != nil {
		t.Fatal(err)
	}
	config := f.Pool.Config()
	config.ConnConfig.RuntimeParams[pgtest.RefuseWrites] = "on"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := f.box.Process(t.Context(), pool, key("1"), effect("1")); !errors.Is(err, workqueue.ErrReadOnly) {
		t.Errorf("got %v", err)
	}
	f.until("the pool has given up the connection", func() bool { return pool.Stat().TotalConns() == 0 })
}

func TestNoTable(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	missing, err := inbox.Open(inbox.Options{Schema: f.Schema + "_x", DedupWindow: day})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := missing.Process(t.Context(), f.Pool, key("1"), effect("1")); !errors.Is(err,
		workqueue.ErrSchemaVersion) {
		t.Errorf("got %v", err)
	}
}

// Messages that no worker processes must not be announced, because NOTIFY serializes the commits of a database.
func TestOnlyWhatAWorkerShallProcessIsAnnounced(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	conn, err := f.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), `LISTEN "`+f.table+`"`); err != nil {
		t.Fatal(err)
	}
	f.process(key("1"))
	f.receive(message("2", ""))
	f.exec(`NOTIFY "` + f.table + `", 'end'`)
	heard := 0
	for {
		n, err := conn.Conn().WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n.Payload == "end" {
			break
		}
		heard++
	}
	if heard != 1 {
		t.Errorf("%d announcements, want that of the received message", heard)
	}
	if _, err := conn.Exec(t.Context(), "UNLISTEN *"); err != nil {
		t.Fatal(err)
	}
}

// A process that freezes while it holds a key loses it when its transaction has been idle for too long. A timeout that
// the session has set itself is kept.
func TestAFrozenHolderLosesTheKey(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	idle := func(pool *pgxpool.Pool, id string) (got string) {
		_, err := f.box.Process(t.Context(), pool, key(id), func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, "SELECT current_setting('idle_in_transaction_session_timeout')").Scan(&got)
		})
		if err != nil {
			t.Error(err)
		}
		return got
	}
	if got := idle(f.Pool, "default"); got != "1min" {
		t.Errorf("the bound is %s, want %v", got, inbox.IdleTimeout)
	}
	config := f.Pool.Config()
	own := fmt.Sprint((pgtest.Lease * 7 / 10).Milliseconds(), "ms")
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = own
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if got := idle(pool, "own"); got != own {
		t.Errorf("the session's own bound of %s is %s", own, got)
	}
	_, err = f.box.Process(t.Context(), pool, key("frozen"), func(context.Context, pgx.Tx) error {
		f.until("the key is free", func() bool {
			result, err := f.box.Process(t.Context(), f.Pool, key("frozen"), effect("frozen"))
			return err == nil && result.Answer == inbox.Processed
		})
		return nil
	})
	if err == nil {
		t.Error("a transaction that was ended by the server has committed")
	}
}

// No interface can prevent a handler from ending its transaction with a statement. Process must not answer then that
// the message was processed. If the handler has committed it, the next call answers Duplicate.
func TestProcessThatWasEndedByText(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	const ended = "was ended by the handler, with ROLLBACK or COMMIT"
	const unmarked = "or its settings were reset, as RESET ALL"
	for name, c := range map[string]struct {
		statements []string
		repeated   inbox.Answer
		says       string
	}{
		"rollback":           {[]string{"ROLLBACK"}, inbox.Processed, ended},
		"rollback and begin": {[]string{"ROLLBACK", "BEGIN"}, inbox.Processed, unmarked},
		"rollback and chain": {[]string{"ROLLBACK AND CHAIN"}, inbox.Processed, unmarked},
		"commit":             {[]string{"COMMIT"}, inbox.Duplicate, ended},
		"commit and begin":   {[]string{"COMMIT", "BEGIN"}, inbox.Duplicate, unmarked},
		"reset":              {[]string{"RESET ALL"}, inbox.Processed, unmarked},
		"rollback inside of a try": {[]string{"SAVEPOINT mine", "ROLLBACK", "BEGIN", "SAVEPOINT mine"},
			inbox.Processed, unmarked},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := f.box.Process(t.Context(), f.Pool, key(name), func(ctx context.Context, tx pgx.Tx) error {
				err := effect(name)(ctx, tx)
				for _, s := range c.statements {
					if err == nil {
						_, err = tx.Exec(ctx, s)
					}
				}
				return err
			})
			if err == nil || !strings.Contains(err.Error(), c.says) || got != (inbox.Result{}) {
				t.Errorf("got %+v, %v", got, err)
			}
			if again := f.process(key(name)); again.Answer != c.repeated {
				t.Errorf("repeated, it says %v, want %v", again.Answer, c.repeated)
			}
			if n := f.effects(name); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
		})
	}
}
