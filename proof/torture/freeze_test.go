//go:build unix

package torture

import (
	"bytes"
	"io"
	"net"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// pipeline returns what a client with prepared statements sends for a transaction in one piece.
func pipeline(t *testing.T, statements ...string) (first, rest []byte) {
	t.Helper()
	messages := []pgproto3.FrontendMessage{}
	for _, s := range statements {
		messages = append(messages, &pgproto3.Parse{Name: s, Query: s}, &pgproto3.Bind{PreparedStatement: s},
			&pgproto3.Execute{})
	}
	var whole []byte
	for i, m := range append(messages, &pgproto3.Sync{}) {
		next, err := m.Encode(whole)
		if err != nil {
			t.Fatal(err)
		}
		whole = next
		if i == 3*len(statements)-2 { // everything but the last Execute
			first = bytes.Clone(whole)
		}
	}
	return first, whole[len(first):]
}

func TestFrozenSession(t *testing.T) {
	t.Parallel()
	told := make(chan string, 1)
	f := newFreezer(func(statement string) { told <- statement })
	client, server := net.Pipe()
	got := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(server)
		got <- all
	}()
	c := &frozen{Conn: client, freezer: f, statement: regexp.MustCompile("fold")}
	write := func(b []byte) {
		if n, err := c.Write(b); n != len(b) || err != nil {
			t.Fatalf("wrote %d of %d bytes, error %v", n, len(b), err)
		}
	}
	startup := []byte("whatever a connection begins with")
	first, rest := pipeline(t, "BEGIN", "SELECT fold()", "COMMIT")
	write(startup)
	write(append(bytes.Clone(first), rest...))
	if statement := <-told; statement != "SELECT fold()" {
		t.Errorf("frozen after %q", statement)
	}
	if !bytes.Equal(c.late, rest) {
		t.Errorf("%d bytes are held back, want those of COMMIT, which are %d", len(c.late), len(rest))
	}
	write([]byte("late"))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	select {
	case all := <-got:
		t.Fatalf("the server was told that the client has left, after %d bytes", len(all))
	default:
	}
	f.thaw()
	want := append(append(append(startup, first...), rest...), "late"...)
	if all := <-got; !bytes.Equal(all, want) {
		t.Errorf("%d bytes had arrived at the end, want %d", len(all), len(want))
	}
}

// A single statement is sent together with the request for its reply: the server then waits for the next one.
func TestSessionFrozenBetweenStatements(t *testing.T) {
	t.Parallel()
	c := &frozen{freezer: newFreezer(func(string) {}), statement: regexp.MustCompile("decide")}
	c.upTo([]byte("startup"))
	first, rest := pipeline(t, "SELECT decide()")
	whole := append(first, rest...)
	if sent, _ := c.upTo(whole); sent != len(whole) || !c.still {
		t.Errorf("%d of %d bytes are sent, frozen: %v", sent, len(whole), c.still)
	}
	other := &frozen{freezer: c.freezer, statement: c.statement}
	other.upTo([]byte("startup"))
	if sent, _ := other.upTo(whole); sent != len(whole) || other.still {
		t.Error("a second session is frozen, too")
	}
}
