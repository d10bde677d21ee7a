package sqltext_test

import (
	"testing"

	"github.com/txwork/txwork/internal/sqltext"
)

func TestQualified(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]string{
		"FROM unnest($1::uuid[]) AS s (id, b)":    "FROM pg_catalog.unnest($1::pg_catalog.uuid[]) AS s (id, b)",
		"FROM unnest($1::int[], $2::int[]) AS s":  "FROM unnest($1::int[], $2::int[]) AS s",
		"SELECT now()":                            "SELECT pg_catalog.now()",
		"SELECT pg_catalog.now(), s.f(1)":         "SELECT pg_catalog.now(), s.f(1)",
		`SELECT "s"."now"(), 'it''s now()'`:       `SELECT "s"."now"(), 'it''s now()'`,
		"SELECT $1::text[], @ids::uuid[], a::int": "SELECT $1::pg_catalog.text[], @ids::pg_catalog.uuid[], a::int",
		"SELECT 1::double precision, b::numeric":  "SELECT 1::double precision, b::numeric",
		"x = ANY (ARRAY(SELECT f(g(1)))) AND y IN (1)": "x = ANY (ARRAY(SELECT pg_catalog.f(pg_catalog.g(1)))) " +
			"AND y IN (1)",
		`ORDER BY a COLLATE "C", "b"`:           `ORDER BY a COLLATE pg_catalog."C", "b"`,
		"coalesce(min(x), nullif(count(*), 0))": "coalesce(pg_catalog.min(x), nullif(pg_catalog.count(*), 0))",
		"x::s.kind, s.f(1), y::s.kind[]":        "x::s.kind, s.f(1), y::s.kind[]",
		`x::"s"."kind", y::"s"."kind"[]`:        `x::"s"."kind", y::"s"."kind"[]`,
		"substring(x FROM 1 FOR 6)":             "substring(x FROM 1 FOR 6)",
		"a.b(1), t.text, text":                  "a.b(1), t.text, text",
	} {
		if got := sqltext.Qualified(statement); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", statement, got, want)
		}
		if again := sqltext.Qualified(want); again != want {
			t.Errorf("%s\nbecame %s", want, again)
		}
	}
}
