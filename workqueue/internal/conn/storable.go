package conn

import (
	"strings"
	"unicode/utf8"
)

// MaxErrorBytes bounds last_error: enough for a message and the top of a stack, not for a page.
const MaxErrorBytes = 8 << 10

// Storable is an error's text as PostgreSQL accepts it: no NUL, valid UTF-8, bounded. If PostgreSQL refused the text,
// it would refuse the statement that records the failure.
func Storable(message string) string {
	message = strings.ReplaceAll(message, "\x00", "")
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) <= MaxErrorBytes {
		return message
	}
	cut := MaxErrorBytes - len("…")
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + "…"
}
