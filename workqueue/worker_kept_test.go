package workqueue_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// A transactionPooler is a connection that looks like one through PgBouncer: the process id that the client is told is
// none of the server's.
type transactionPooler struct {
	net.Conn
	pending bytes.Buffer
}

func (c *transactionPooler) Read(p []byte) (int, error) {
	if c.pending.Len() == 0 {
		header := make([]byte, 5)
		if _, err := io.ReadFull(c.Conn, header); err != nil {
			return 0, err
		}
		body := make([]byte, binary.BigEndian.Uint32(header[1:])-4)
		if _, err := io.ReadFull(c.Conn, body); err != nil {
			return 0, err
		}
		if header[0] == 'K' { // BackendKeyData
			binary.BigEndian.PutUint32(body, binary.BigEndian.Uint32(body)+1<<30)
		}
		c.pending.Write(append(header, body...))
	}
	return c.pending.Read(p)
}

// Claims and settles run under the same settings, whether their sessions keep them or each transaction sets them. No
// other session gets any of them.
func TestSettingsOfAWorkersTransactions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pool func(*pgxpool.Config)
		kept string // enable_seqscan in the runtime's sessions, outside of any transaction of ours
	}{
		"directly": {func(*pgxpool.Config) {}, "off"},
		"with a hook that resets sessions": {func(c *pgxpool.Config) {
			c.AfterRelease = func(conn *pgx.Conn) bool {
				_, err := conn.Exec(context.Background(), "RESET ALL")
				return err == nil
			}
		}, "on"},
		"with a hook that prepares connections": {func(c *pgxpool.Config) {
			c.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return true, nil }
		}, "on"},
		"with a hook for new connections": {func(c *pgxpool.Config) {
			c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "SET enable_seqscan = on")
				return err
			}
		}, "off"},
		"in a mode for poolers": {func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec },
			"on"},
		"through a pooler": {func(c *pgxpool.Config) {
			dial := c.ConnConfig.DialFunc
			c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &transactionPooler{Conn: conn}, nil
			}
		}, "on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			r.exec(`CREATE TABLE seen (status smallint, isolation text, seqscan text, plans text, commits text, lock text);
				CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN
					INSERT INTO seen VALUES (new.status, current_setting('transaction_isolation'), current_setting('enable_seqscan'),
						current_setting('plan_cache_mode'), current_setting('synchronous_commit'), current_setting('lock_timeout'));
					RETURN NULL;
				END $$;
				CREATE TRIGGER see AFTER UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION see()`)
			pool := r.openPool(func(config *pgxpool.Config) {
				parameters := config.ConnConfig.RuntimeParams
				parameters["default_transaction_isolation"],
					parameters["default_transaction_read_only"] = "serializable", "on"
				c.pool(config)
			})
			runtime, err := workqueue.NewRuntime(pool, workqueue.RuntimeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w := r.startOn(pool, r.Domain, workqueue.WorkerOptions{Runtime: runtime}, ackAll)
			for _, topic := range []string{"one", "two", "three"} { // over new sessions and over used ones
				r.awaitStatus(workqueue.Done, r.insert(topic)...)
			}
			var kept string
			err = runtime.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
				return conn.QueryRow(t.Context(), "SELECT current_setting('enable_seqscan')").Scan(&kept)
			})
			if err != nil || kept != c.kept {
				t.Errorf("enable_seqscan is %q in a session of the runtime, want %q, error %v", kept, c.kept, err)
			}
			w.stop(t)
			if n := ask[int](r, "SELECT count(*) FROM seen WHERE status = 2"); n != 3 {
				t.Errorf("%d settles, want 3", n)
			}
			const odd = `SELECT coalesce(string_agg(seen::text, ' '), '') FROM seen WHERE
				(isolation, seqscan, plans, commits, lock) IS DISTINCT FROM ('read committed', 'off', 'force_generic_plan',
					CASE status WHEN 1 THEN 'off' ELSE 'on' END, CASE status WHEN 1 THEN '0' ELSE '500ms' END)`
			if odd := ask[string](r, odd); odd != "" {
				t.Errorf("transactions under other settings: %s", odd)
			}
		})
	}
}
