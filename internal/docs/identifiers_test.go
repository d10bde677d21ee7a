package docs

import (
	"go/importer"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// qualified is a Go name with one of our packages, and optionally a name below it.
var qualified = regexp.MustCompile(`(?:^|[^\w./"-])([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)

// plain is a Go name without a package, as in tables of options: in mixed case, unlike SQL names. Those of
// docs/seeds.md may belong to the seeds, and those of docs/clients to drivers of other languages.
var plain = regexp.MustCompile(`^([A-Z]+[a-z]\w*)(?:\.([A-Z]\w*))?(?:\(.*\))?$`)

// Go names that the pages qualify with a package exist, and so do names below a type.
func TestNamedIdentifiersExist(t *testing.T) {
	t.Parallel()
	packages := ourPackages(t)
	found := 0
	for _, p := range pages(t) {
		if p.Path == "CHANGELOG.md" || strings.HasPrefix(p.Path, "docs/adr/") {
			continue // these describe earlier versions
		}
		for _, code := range p.Code() {
			if m := plain.FindStringSubmatch(code); m != nil && p.Path != "docs/seeds.md" &&
				path.Dir(p.Path) != "docs/clients" && !known(t, packages, m[1], m[2]) {
				t.Errorf("%s names %s, which is nowhere in the code", p.Path, code)
			}
			for _, m := range qualified.FindAllStringSubmatch(code, -1) {
				pkg, ours := packages[m[1]]
				if !ours || namedTest.MatchString(m[0]) {
					continue
				}
				found++
				if !declares(pkg, m[2], m[3]) {
					t.Errorf("%s names %s, which does not exist", p.Path, strings.TrimSpace(m[0]))
				}
			}
		}
	}
	if found < 80 {
		t.Errorf("only %d names were found", found)
	}
}

// ourPackages returns, by name, the packages that a page may name without their path.
func ourPackages(t *testing.T) map[string]*types.Package {
	t.Helper()
	from := importer.ForCompiler(token.NewFileSet(), "gc", exports(t))
	packages := map[string]*types.Package{}
	for _, imported := range imports {
		if !strings.HasPrefix(imported, ours) {
			continue
		}
		pkg, err := from.Import(imported)
		if err != nil {
			t.Fatal(err)
		}
		packages[path.Base(imported)] = pkg
	}
	return packages
}

func declares(pkg *types.Package, name, below string) bool {
	object := pkg.Scope().Lookup(name)
	if object == nil || below == "" {
		return object != nil
	}
	member, _, _ := types.LookupFieldOrMethod(object.Type(), true, pkg, below)
	return member != nil
}

// known tells whether an unqualified name occurs in the code, or a name below a type in one of our packages.
func known(t *testing.T, packages map[string]*types.Package, name, below string) bool {
	if below != "" {
		for _, pkg := range packages {
			if declares(pkg, name, below) {
				return true
			}
		}
		return false
	}
	return identifiers(t)[name]
}

var exported = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	files, _ := sources()
	for file, source := range files {
		if strings.HasSuffix(file, ".go") && !strings.HasPrefix(file, "internal/docs/") {
			for _, word := range identifier.FindAllString(source.text, -1) {
				all[word] = true
			}
		}
	}
	return all
})

var identifier = regexp.MustCompile(`\b[A-Z]\w*`)

// identifiers returns the words of the code that may be exported names.
func identifiers(t *testing.T) map[string]bool {
	t.Helper()
	code(t) // reports errors in reading the code
	return exported()
}
