package frontend_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/txwork/txwork/internal/frontend"
)

func TestMessagesAndTheirStatements(t *testing.T) {
	t.Parallel()
	var r frontend.Reader
	send := func(messages ...pgproto3.FrontendMessage) (statements []string) {
		var b []byte
		for _, m := range messages {
			var err error
			if b, err = m.Encode(b); err != nil {
				t.Fatal(err)
			}
		}
		size := 0
		for m, sql := range r.Messages(b) {
			if size += len(m); sql != "" {
				statements = append(statements, sql)
			}
		}
		if size != len(b) {
			t.Errorf("%d bytes are in messages, want %d", size, len(b))
		}
		return statements
	}
	for _, c := range []struct {
		name string
		sent []pgproto3.FrontendMessage
		want []string
	}{
		{"startup",
			[]pgproto3.FrontendMessage{&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersionNumber}}, nil},
		{"prepared", []pgproto3.FrontendMessage{&pgproto3.Parse{Name: "a", Query: "SELECT 1"},
			&pgproto3.Parse{Name: "b", Query: "SELECT 2"}, &pgproto3.Sync{}}, nil},
		{"run", []pgproto3.FrontendMessage{
			&pgproto3.Bind{PreparedStatement: "b"}, &pgproto3.Execute{}, &pgproto3.Bind{PreparedStatement: "a"},
			&pgproto3.Execute{}, &pgproto3.Sync{},
		}, []string{"SELECT 2", "SELECT 1"}},
		{"simple", []pgproto3.FrontendMessage{&pgproto3.Query{String: "COMMIT"}}, []string{"COMMIT"}},
	} {
		if got := send(c.sent...); !slices.Equal(got, c.want) {
			t.Errorf("%s: runs %q, want %q", c.name, got, c.want)
		}
	}
}
