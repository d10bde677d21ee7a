// Package frontend reads what a client sends to PostgreSQL: it tells the messages apart, and which statement each runs.
package frontend

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// A Reader reads one connection's messages. It is for one goroutine.
type Reader struct {
	started  bool
	prepared map[string]string // statements by their names
	bound    string            // the statement of the last Bind
}

// header is the type and the length of a message.
const header = 5

// Messages are those in b, which has to hold whole ones, each with the statement that it runs; empty: it runs none.
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

// statement is what a message runs.
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
