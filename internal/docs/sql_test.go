package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	inSchema = regexp.MustCompile(`\btxwork\.([a-z][a-z_]*[a-z])(?:\.[a-z_]+)*\b`)
	ofTables = regexp.MustCompile(`…_([a-z_]+)\b`)
)

// Objects that the pages name in schema txwork exist, and so do the functions that every table has, such as `…_claim`.
func TestNamedObjectsOfTheSchemaExist(t *testing.T) {
	t.Parallel()
	made := objects(t)
	found := 0
	for _, p := range pages(t) {
		if p.Path == "CHANGELOG.md" || strings.HasPrefix(p.Path, "docs/adr/") {
			continue // these describe earlier versions
		}
		texts := p.Code()
		for _, b := range p.Blocks() {
			texts = append(texts, b.Text)
		}
		for _, text := range texts {
			for _, m := range inSchema.FindAllStringSubmatch(text, -1) {
				if found++; !made[m[1]] && !inSource(t, `"`+m[0]+`"`) { // it may also be a metric
					t.Errorf("%s names %s, which no migration makes", p.Path, m[0])
				}
			}
			for _, m := range ofTables.FindAllStringSubmatch(text, -1) {
				if found++; !made["outbox_"+m[1]] {
					t.Errorf("%s names %s, which tables do not have", p.Path, m[0])
				}
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d names were found", found)
	}
}

// objects returns the names of the tables, functions, indexes and other objects that the migrations create.
func objects(t *testing.T) map[string]bool {
	t.Helper()
	file, err := os.Open(filepath.Join(root, "migrations/catalog/objects.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	names := map[string]bool{}
	for decoder := json.NewDecoder(file); decoder.More(); {
		var o struct{ Name string }
		if err := decoder.Decode(&o); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(o.Name, "(")
		names[name] = true
	}
	return names
}
