package pgtest

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgschema"
)

// NewIn is New in a database of its own, which has another encoding than UTF8. The sessions of its pool speak UTF-8;
// those of its URL speak the encoding of the database, as is the default of PostgreSQL.
func NewIn(t testing.TB, encoding string, options ...Option) *DB {
	t.Helper()
	server, err := pgx.ParseConfig(URL(t))
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	name := "t_" + strings.ToLower(rand.Text())
	execute(t, server, "CREATE DATABASE "+name+" ENCODING '"+encoding+"' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
	t.Cleanup(func() { execute(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(URL(t))
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	u.Path = "/" + name
	utf8 := WithPool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["client_encoding"] = "UTF8" })
	options = append([]Option{utf8}, options...)
	return pgschema.New(t, u.String(), configured(t, options)...)
}
