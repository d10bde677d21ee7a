package conn

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// PgxEncoder chooses how arguments travel on a pgx connection: in pgx's binary form where the server
// tells the parameter types, as text where the connection's mode forgoes that (behind a pooler, say). It refuses a
// session that would misread texts.
func PgxEncoder(conn *pgx.Conn, careful bool) (func(any) any, error) {
	if err := speaks(conn); err != nil {
		return nil, err
	}
	has, text := repertoireOf(serverEncoding(conn), careful), readsText(conn)
	switch {
	case has == nil && text:
		return EncodeLiteral, nil
	case has == nil:
		return encodeBinary, nil
	case text:
		return noted(has, literal), nil
	}
	return noted(has, binary), nil
}

// The encoders for databases that store any character, which nearly all do.
var encodeBinary, EncodeLiteral = noted(nil, binary), noted(nil, literal)

// readsText tells whether values travel as text on a pgx connection, in both directions.
func readsText(conn *pgx.Conn) bool {
	if conn == nil {
		return false
	}
	mode := conn.Config().DefaultQueryExecMode
	return mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol
}

// binary sends ids in binary form, without a detour through driver.Valuer and a string.
func binary(v any) any {
	switch v := v.(type) {
	case uuid.UUID:
		return [16]byte(v)
	case []uuid.UUID:
		return idArray(v)
	case []any:
		return anyArray(v)
	}
	return v
}

// An idArray gives pgx its elements without copying each of them.
type idArray []uuid.UUID

func (a idArray) Dimensions() []pgtype.ArrayDimension { return oneDimension(len(a)) }
func (a idArray) Index(i int) any                     { return (*storedID)(&a[i]) }
func (a idArray) IndexType() any                      { return (*storedID)(nil) }

type storedID uuid.UUID

func (id *storedID) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: *id, Valid: true}, nil
}

// An anyArray lets pgx encode columns without reflection.
type anyArray []any

func (a anyArray) Dimensions() []pgtype.ArrayDimension { return oneDimension(len(a)) }
func (a anyArray) Index(i int) any                     { return a[i] }
func (a anyArray) IndexType() any                      { return nil }

func oneDimension(n int) []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(n), LowerBound: 1}}
}

// literal turns arrays into PostgreSQL's text form, which every database/sql driver can send.
func literal(v any) any {
	switch v := v.(type) {
	case uuid.UUID:
		return v.String()
	case []uuid.UUID:
		return ArrayLiteral(v)
	case []string:
		return ArrayLiteral(v)
	case []*string:
		return ArrayLiteral(v)
	case []*int64:
		return ArrayLiteral(v)
	case []bool:
		return ArrayLiteral(v)
	case []any:
		return ArrayLiteral(v)
	}
	return v
}

// ArrayLiteral is an array in PostgreSQL's text form.
func ArrayLiteral[T any](values []T) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		writeElement(&b, v)
	}
	b.WriteByte('}')
	return b.String()
}

// Microseconds is the layout of a time as text, with the precision of PostgreSQL.
const Microseconds = "2006-01-02T15:04:05.999999Z07:00"

func writeElement(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("NULL")
	case *string:
		writeOptional(b, v)
	case *int64:
		writeOptional(b, v)
	case string:
		writeQuoted(b, v)
	case []byte:
		b.WriteString(`"\\x` + hex.EncodeToString(v) + `"`)
	case time.Time:
		b.WriteString(`"` + v.UTC().Format(Microseconds) + `"`)
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case uuid.UUID:
		b.WriteString(v.String())
	default:
		fmt.Fprint(b, v)
	}
}

func writeOptional[T any](b *strings.Builder, v *T) {
	if v == nil {
		b.WriteString("NULL")
		return
	}
	writeElement(b, *v)
}

func writeQuoted(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	b.WriteByte('"')
}

// Interval is a duration as PostgreSQL reads it through every driver.
func Interval(d time.Duration) string {
	return strconv.FormatInt(d.Microseconds(), 10) + " microseconds"
}

// OptionalText is a text of which an empty one stands for NULL.
func OptionalText(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// EncodeAll encodes the arguments of a statement.
func EncodeAll(values []any, encode func(any) any) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = encode(v)
	}
	return args
}
