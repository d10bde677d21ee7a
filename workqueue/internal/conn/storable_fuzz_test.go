package conn

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever an error says, its stored text is accepted by PostgreSQL, is bounded in size, and does not change when it is
// stored again. Text that needs no change is stored as it is.
func FuzzStorable(f *testing.F) {
	for _, s := range []string{"", "timeout", "a\x00b", "\xff\xfe", "é", strings.Repeat("é", MaxErrorBytes),
		strings.Repeat("x", MaxErrorBytes), "\x00"} {
		f.Add(s, uint16(1))
	}
	f.Add("\xe2\x82", uint16(5000))
	f.Add("\x00€", uint16(4000))
	f.Fuzz(func(t *testing.T, part string, times uint16) {
		message := strings.Repeat(part, min(int(times), 3*MaxErrorBytes/max(len(part), 1)))
		got := Storable(message)
		switch {
		case strings.Contains(got, "\x00") || !utf8.ValidString(got):
			t.Fatalf("%q is stored as %q", message, got)
		case len(got) > MaxErrorBytes:
			t.Fatalf("%d bytes are stored as %d", len(message), len(got))
		case Storable(got) != got:
			t.Fatalf("%q becomes %q when it is stored again", got, Storable(got))
		}
		if clean := !strings.Contains(message, "\x00") && utf8.ValidString(message); clean &&
			len(message) <= MaxErrorBytes && got != message {
			t.Fatalf("%q is stored as %q", message, got)
		}
	})
}
