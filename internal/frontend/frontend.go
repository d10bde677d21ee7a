// Package frontend parses what a client sends to PostgreSQL: it splits the stream into messages, and says which
// statement each message runs.
package frontend

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// A Reader reads one connection's messages. It must be used by one goroutine only.
type Reader struct {
	started  bool
	prepared map[string]string // statements by name
	bound    string            // statement of the last Bind
}

// header is the size of a message's type and length.
const header = 5

// Messages returns the messages in b, which has to contain whole messages, each with the statement that it runs. The
// statement is empty for a message that runs none.
func (r *Reader) Messages(b []byte) iter.Seq2[[]byte, string] {
	return func(yield func([]byte, string) bool) {
		if !r.started { // StartupMessage and CancelRequest have no type
			r.started, r.prepared = true, map[string]string{}
			yield(b, "")
			return
		}
		for len(b) >= header {
			size := 1 + int(binary.BigEndian.Uint32(b[1:]))
			m := b[:size]
			if !yield(m, r.statement(m)) {
				return
			}
			b = b[size:]
		}
	}
}

// statement returns the statement that a message runs.
func (r *Reader) statement(m []byte) string {
	switch fields := bytes.Split(m[header:], []byte{0}); m[0] {
	case 'P': // Parse
		r.prepared[string(fields[0])] = string(fields[1])
	case 'B': // Bind
		r.bound = r.prepared[string(fields[1])]
	case 'E': // Execute
		return r.bound
	case 'Q': // Query
		return string(fields[0])
	}
	return ""
}
