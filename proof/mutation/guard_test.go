package mutation

import (
	"slices"
	"testing"
)

func TestFindGuards(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql  string
		want []string
	}{
		"parts": {"UPDATE t SET a = 1\nWHERE t.owner_token = s.token AND t.status = 1\nRETURNING t.id",
			[]string{"t.owner_token = s.token", "t.status = 1"}},
		"nested": {"UPDATE t WHERE t.ctid = ANY (ARRAY(\n SELECT r.ctid FROM t AS r WHERE r.status = 1 AND r.due_at " +
			"<= now() ORDER BY r.id FOR UPDATE SKIP LOCKED))",
			[]string{"r.status = 1", "r.due_at <= now()", " FOR UPDATE SKIP LOCKED", " SKIP LOCKED"}},
		"locks": {"SELECT r.id FROM t AS r\nORDER BY r.id\nFOR NO KEY UPDATE OF r",
			[]string{"\nFOR NO KEY UPDATE OF r"}},
		"decisions": {"BEGIN\n    IF a = 1 OR\n        b = 2 THEN\n        RETURN;\n    ELSIF NOT " +
			"FOUND THEN\n        NULL;\n    END IF;", []string{"a = 1 OR\n        b = 2", "NOT FOUND"}},
		"but those of the template": {"{{- if .Keyed}}\n    CREATE TABLE IF NOT EXISTS t (a CASE WHEN b THEN c " +
			"END){{end}}", nil},
		"what follows from the status": {"SELECT WHERE r.completed_at IS NULL AND r.status = 0",
			[]string{"r.status = 0"}},
		"and what does not": {"SELECT WHERE r.completed_at IS NULL AND r.waiting",
			[]string{"r.completed_at IS NULL", "r.waiting"}},
		"alternatives are one part": {"SELECT WHERE a = 1 OR b = 2 AND c = 3;", []string{"a = 1 OR b = 2 AND c = 3"}},
		"those in brackets, too": {"SELECT WHERE (a = 1 OR b = 2) AND c = 3;", []string{"(a = 1 OR b = 2)",
			"c = 3"}},
		"between": {"CHECK (a BETWEEN 0 AND 3 AND b = 1)", []string{"a BETWEEN 0 AND 3", "b = 1"}},
		"actions": {"SELECT WHERE a = 1\n {{- range .Lanes}}\n AND r.{{.Quoted}} = @{{.Param}}\n {{- end}}\nORDER BY a",
			[]string{"a = 1", "r.{{.Quoted}} = @{{.Param}}"}},
		"triggers": {"FOR EACH ROW WHEN (OLD.a AND NEW.b) EXECUTE FUNCTION f()",
			[]string{"OLD.a", "NEW.b"}},
		"comments": {"-- WHERE a = 1\nSELECT WHERE b = 1 -- AND c = 1\nORDER BY b", []string{"b = 1"}},
		"strings":  {"SELECT WHERE a = 'x) AND y' AND b = 1", []string{"a = 'x) AND y'", "b = 1"}},
		"names are no guards": {"SELECT WHERE t.id = s.id AND a.job_id = $1 AND t.owner = $2",
			[]string{"t.owner = $2"}},
		"nor filters":               {"SELECT count(*) FILTER (WHERE a = 1)", nil},
		"nor indexes":               {"SELECT 1;\nCREATE INDEX i ON t (a) WHERE b IS NULL;", nil},
		"but those that are unique": {"CREATE UNIQUE INDEX i ON t (a) WHERE b IS NULL;", []string{"b IS NULL"}},
	} {
		var got []string
		for _, g := range findGuards(c.sql) {
			got = append(got, g.text)
			if c.sql[g.offset:g.offset+len(g.text)] != g.text {
				t.Errorf("%s: %q is not at offset %d", name, g.text, g.offset)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// The lists fit the repository: every edit's text occurs once, and every equivalent guard still exists.
func TestListFitsTheRepository(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mutants, _, err := collect(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < 300 {
		t.Errorf("only %d mutants", len(mutants))
	}
	seen := map[string]bool{}
	for _, m := range mutants {
		if seen[m.Name] {
			t.Errorf("two mutants are named %q", m.Name)
		}
		seen[m.Name] = true
		if text, err := m.source(root); err != nil || m.old == m.new || len(text) == 0 {
			t.Errorf("%s changes nothing: %v", m.Name, err)
		}
		if len(m.suites) == 0 {
			t.Errorf("%s has no suite", m.Name)
		}
	}
}
