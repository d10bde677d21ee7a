package writers

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// calls are the functions of all domains with one payload, in the place of %s.
var calls = map[string]string{
	"outbox": "txwork.outbox_enqueue('t', %s)",
	"inbox":  "txwork.inbox_receive('c', 's', gen_random_uuid()::text, %s)",
	"timers": "txwork.timers_set(gen_random_uuid()::text, 't', now(), %s)",
	"jobs":   "txwork.jobs_enqueue('echo', %s)",
}

// path is a payload that bytea's own text formats read as something else: as text with escapes, it has a line break.
const path = `{"path":"C:\\new"}`

// A client sends the payload path.
type client struct {
	name string
	send func(ctx context.Context, f *fixture, call string) error
}

// param executes the call as drivers do: with a parameter of a type, and its value in the format of the protocol.
func param(oid uint32, format int16) func(context.Context, *fixture, string) error {
	return func(ctx context.Context, f *fixture, call string) error {
		conn, err := f.db.Pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return conn.Conn().PgConn().ExecParams(ctx, "SELECT * FROM "+fmt.Sprintf(call, "$1"), [][]byte{[]byte(path)},
			[]uint32{oid}, []int16{format}, nil).Read().Err
	}
}

// literal executes the call with a literal, in the simple protocol.
func literal(value string) func(context.Context, *fixture, string) error {
	return func(ctx context.Context, f *fixture, call string) error {
		_, err := f.db.Pool.Exec(ctx, "SELECT * FROM "+fmt.Sprintf(call, value), pgx.QueryExecModeSimpleProtocol)
		return err
	}
}

// value executes the call with an argument of pgx, which asks the server for its type.
func value(v any) func(context.Context, *fixture, string) error {
	return func(ctx context.Context, f *fixture, call string) error {
		_, err := f.db.Pool.Exec(ctx, "SELECT * FROM "+fmt.Sprintf(call, "$1"), v)
		return err
	}
}

const (
	inText   = pgx.TextFormatCode
	inBinary = pgx.BinaryFormatCode
	unnamed  = 0 // the server is to find the type
)

var clients = []client{
	{"a literal", literal("'" + path + "'")},
	{"an escaped literal", literal("E'" + strings.ReplaceAll(path, `\`, `\\`) + "'")},
	{"a literal of type text", literal("'" + path + "'::text")},
	{"a literal of type json", literal("'" + path + "'::json")},
	{"bytes in hex", literal(fmt.Sprintf(`'\x%x'::bytea`, path))},
	{"node-postgres, libpq, psycopg: a string", param(unnamed, inText)},
	{"node-postgres: a Buffer", param(unnamed, inBinary)},
	{"JDBC: setString", param(pgtype.VarcharOID, inText)},
	{"Npgsql, psycopg: text", param(pgtype.TextOID, inBinary)},
	{"psycopg: bytes", param(pgtype.ByteaOID, inBinary)},
	{"JDBC: setBytes", param(pgtype.ByteaOID, inBinary)},
	{"psycopg: Json", param(pgtype.JSONOID, inText)},
	{"pgx: a string", value(path)},
	{"pgx: bytes", value([]byte(path))},
	{"psql", psql},
}

func psql(ctx context.Context, f *fixture, call string) error {
	program, err := exec.LookPath("psql")
	if err != nil {
		f.Skip("there is no psql here")
	}
	out, err := exec.CommandContext(ctx, program, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", f.db.URL, "-c",
		"SELECT * FROM "+fmt.Sprintf(call, "'"+path+"'")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// What a client sends as text is what a handler gets, byte by byte, in every domain.
func TestTextArrivesAsItsBytes(t *testing.T) {
	f := newFixture(t)
	for domain, call := range calls {
		for _, c := range clients {
			t.Run(domain+"/"+c.name, func(t *testing.T) {
				f := f.with(t)
				f.ok(c.send(t.Context(), f, f.in(call)))
				if got := f.run(domain); len(got) != 1 || got[0] != path {
					t.Errorf("the handler got %q, want %q", got, path)
				}
			})
		}
	}
}

// jsonb has a form of its own, which is the text of the payload.
func TestJSONBArrivesAsItsText(t *testing.T) {
	f := newFixture(t)
	for domain, call := range calls {
		f.ok(literal(`jsonb_build_object('path', 'C:\new')`)(t.Context(), f, f.in(call)))
		f.ok(param(pgtype.JSONBOID, inText)(t.Context(), f, f.in(call)))
		const want = `{"path": "C:\\new"}`
		if got := f.run(domain); len(got) != 2 || got[0] != want || got[1] != want {
			t.Errorf("%s: the handler got %q, want %s twice", domain, got, want)
		}
	}
}

// Bytes that are no text arrive, too, where the client names their type.
func TestBytesArrive(t *testing.T) {
	f := newFixture(t)
	for domain, call := range calls {
		if domain == "jobs" { // whose args are JSON
			continue
		}
		f.ok(literal(`'\x00ff5c'::bytea`)(t.Context(), f, f.in(call)))
		if got := f.run(domain); len(got) != 1 || got[0] != "\x00\xff\\" {
			t.Errorf("%s: the handler got %q", domain, got)
		}
	}
}

// A client that sends bytes without a type, as text, is refused where they are no text, and nothing is written.
func TestBytesWithoutATypeAreRefused(t *testing.T) {
	f := newFixture(t)
	conn, err := f.db.Pool.Acquire(t.Context())
	f.ok(err)
	defer conn.Release()
	for domain, call := range calls {
		err := conn.Conn().PgConn().ExecParams(t.Context(), "SELECT * FROM "+f.in(fmt.Sprintf(call, "$1")),
			[][]byte{{0xff, 0xfe}}, nil, []int16{inBinary}, nil).Read().Err
		if pg, ok := err.(*pgconn.PgError); !ok || pg.Code != "22021" {
			t.Errorf("%s: %v, want SQLSTATE 22021", domain, err)
		}
	}
}

// A direct INSERT of a literal is why there are functions: bytea reads its own escapes, and the table sees bytes that
// might have been meant. docs/sql.md says so.
func TestADirectLiteralIsReadWithEscapes(t *testing.T) {
	f := newFixture(t)
	_, err := f.db.Pool.Exec(t.Context(), f.in("INSERT INTO txwork.outbox (topic, payload) VALUES ('t', '"+path+"')"))
	f.ok(err)
	if got, want := f.run("outbox"), `{"path":"C:\new"}`; len(got) != 1 || got[0] != want {
		t.Errorf("the handler got %q, want %q", got, want)
	}
}
