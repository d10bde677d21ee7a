package main

import (
	"strings"
	"testing"
)

func TestRolesArePrinted(t *testing.T) {
	t.Parallel()
	r := execute(t, t.Context(), nil, nil, "roles", "--schema", "shop", "--prefix", "eshop")
	r.ok().prints(`CREATE ROLE "eshop_owner" NOLOGIN`, `CREATE ROLE "eshop_worker" LOGIN`, `'"shop"."outbox"'`,
		`GRANT EXECUTE ON ROUTINE "shop"."outbox_fetch"`, `"shop"."jobs_key_seq"`, `"shop"."schema_version"`)
	if strings.Contains(r.stdout, "txwork_") {
		t.Error("the output with --prefix contains a name with the default prefix")
	}
	own := execute(t, t.Context(), nil, nil, "roles", "--schema", "billing", "--table", "invoices", "--table",
		"letters:keys:join:topics")
	own.ok().prints(`"billing"."invoices_fetch"`, `"billing"."letters_key_seq"`, `"billing"."letters_join_member"`,
		`"billing"."letters_topic"`, `"txwork_producer"`)
	if strings.Contains(own.stdout, "outbox") || strings.Contains(own.stdout, "invoices_key") ||
		strings.Contains(own.stdout, "invoices_topic") {
		t.Error("--table printed SQL for other tables")
	}
}

func TestRolesThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"schema":             {"--schema", `a"; DROP ROLE x; --`},
		"reserved schema":    {"--schema", "pg_x"},
		"no prefix":          {"--prefix", ""},
		"quoted prefix":      {"--prefix", `a"`},
		"reserved prefix":    {"--prefix", "pg_a"},
		"prefix too long":    {"--prefix", strings.Repeat("a", 55)},
		"table":              {"--table", `a'; --`},
		"table too long":     {"--table", strings.Repeat("a", 49)},
		"no table":           {"--table", ""},
		"table twice":        {"--table", "a", "--table", "a:keys"},
		"ours":               {"--table", "outbox"},
		"an unknown quality": {"--table", "a:fast"},
	} {
		r := execute(t, t.Context(), nil, nil, append([]string{"roles"}, args...)...)
		if r.exits(exitUsage); r.stdout != "" {
			t.Errorf("%s: printed %q", name, r.stdout)
		}
	}
}
