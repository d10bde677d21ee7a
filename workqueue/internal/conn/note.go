package conn

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue/internal/fault"
)

// A Note is a text that a transition records, such as the error of an attempt. If the encoding of the database lacks
// some of its characters, they are replaced: a refusal would concern the whole settle. The texts of an application,
// such as keys and headers, are refused instead.
type Note string

// OptionalNote is a note of which an empty text stands for NULL.
func OptionalNote(text string) *Note {
	if text == "" {
		return nil
	}
	n := Note(text)
	return &n
}

// A repertoire tells which characters a database can store; nil: any.
type repertoire func(rune) bool

func isASCII(r rune) bool  { return r < utf8.RuneSelf }
func isLatin1(r rune) bool { return r <= 0xff }

// repertoireOf tells which characters a connection's database can store. Which ones encodings other than these have is
// a matter of large tables, which only the server has: careful is said after it has refused a text, and where a refusal
// would end the transaction of the application.
func repertoireOf(encoding string, careful bool) repertoire {
	switch {
	case encoding == "UTF8", encoding == "SQL_ASCII", encoding == "": // SQL_ASCII stores any bytes
		return nil
	case encoding == "LATIN1":
		return isLatin1
	case careful:
		return isASCII
	}
	return nil
}

// fit returns a text with escapes such as \u65e5 for the characters that are not in the repertoire.
func (has repertoire) fit(text string) string {
	if has == nil || strings.IndexFunc(text, func(r rune) bool { return !has(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if has(r) {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	short := Storable(b.String())
	if cut, found := strings.CutSuffix(short, "…"); found && !has('…') {
		return cut + "..."
	}
	return short
}

// noted wraps the encoder of a connection: it turns notes into texts that the database can store.
func noted(has repertoire, encode func(any) any) func(any) any {
	return func(v any) any {
		switch v := v.(type) {
		case Note:
			return has.fit(string(v))
		case *Note:
			if v == nil {
				return (*string)(nil)
			}
			text := has.fit(string(*v))
			return &text
		case []*Note:
			texts := make([]*string, len(v))
			for i, n := range v {
				if n != nil {
					text := has.fit(string(*n))
					texts[i] = &text
				}
			}
			return encode(texts)
		}
		return encode(v)
	}
}

// NeedsEncoding reports whether a note among the arguments has a character that a database may lack.
func NeedsEncoding(args []any) (needs bool) {
	ask := noted(func(r rune) bool { needs = needs || !isASCII(r); return true }, func(v any) any { return v })
	for _, arg := range args {
		ask(arg)
	}
	return needs
}

// LiteralFor is the encoder for a connection that sends texts to a database of this encoding.
func LiteralFor(encoding string) func(any) any { return noted(repertoireOf(encoding, true), literal) }

// serverEncoding is the encoding of a connection's database; empty where it is not known.
func serverEncoding(conn *pgx.Conn) string {
	if conn == nil {
		return ""
	}
	return conn.PgConn().ParameterStatus("server_encoding")
}

// speaks refuses a session that takes the bytes of our texts, which are UTF-8, for those of another encoding.
func speaks(conn *pgx.Conn) error {
	if conn == nil {
		return nil
	}
	client := conn.PgConn().ParameterStatus("client_encoding")
	if client == "" || client == "UTF8" || client == "SQL_ASCII" && serverEncoding(conn) == "SQL_ASCII" {
		return nil
	}
	return fmt.Errorf("txwork: %w: its client_encoding is %s, and texts are sent in UTF-8: add client_encoding=UTF8 "+
		"to the connection string", fault.ErrSession, client)
}
