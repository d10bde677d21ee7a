package workqueue

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever an error says, what is stored of it is text that PostgreSQL takes, of a bounded size, and the same again
// when it is stored again. What needed no change keeps its words.
func FuzzStorable(f *testing.F) {
	for _, s := range []string{"", "timeout", "a\x00b", "\xff\xfe", "é", strings.Repeat("é", maxErrorBytes),
		strings.Repeat("x", maxErrorBytes), "\x00"} {
		f.Add(s, uint16(1))
	}
	f.Add("\xe2\x82", uint16(5000))
	f.Add("\x00€", uint16(4000))
	f.Fuzz(func(t *testing.T, part string, times uint16) {
		message := strings.Repeat(part, min(int(times), 3*maxErrorBytes/max(len(part), 1)))
		got := storable(message)
		switch {
		case strings.Contains(got, "\x00") || !utf8.ValidString(got):
			t.Fatalf("%q is stored as %q", message, got)
		case len(got) > maxErrorBytes:
			t.Fatalf("%d bytes are stored as %d", len(message), len(got))
		case storable(got) != got:
			t.Fatalf("%q becomes %q when it is stored again", got, storable(got))
		}
		if clean := !strings.Contains(message, "\x00") && utf8.ValidString(message); clean &&
			len(message) <= maxErrorBytes && got != message {
			t.Fatalf("%q is stored as %q", message, got)
		}
	})
}
