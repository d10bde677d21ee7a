package doctor_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unrun are the commands that no test runs, with the reason.
var unrun = map[string]string{
	"timedatectl timesync-status || chronyc tracking": "it asks the machine's own time service, which a test must not set",
}

// A site is a place in the source that prints commands or SQL as a remedy.
type site struct {
	at    token.Position
	kind  string // commands or SQL
	codes []string
	shape *regexp.Regexp // what the source says of the text
}

// Each place in the source that prints a command or SQL has a row on the page, so a test has run what it prints. A
// remedy that is written tomorrow fails here until a test follows it.
func TestEachRemedyIsRun(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the page is being written")
	}
	text, err := os.ReadFile(conditions)
	must(t, err)
	rows := map[string][]string{"SQL": sqlRows(string(text)), "commands": commandRows(string(text))}
	sites := remedySites(t)
	if len(sites) < 40 {
		t.Fatalf("only %d remedies were found in the source: the search is wrong", len(sites))
	}
	used := map[string]bool{}
	for _, s := range sites {
		if reason := unrun[s.shape.String()]; reason != "" {
			used[s.shape.String()] = true
			continue
		}
		if len(s.codes) == 0 {
			t.Errorf("%s: no check reaches the remedy %s", s.at, s.shape)
		}
		for _, code := range s.codes {
			if !slices.ContainsFunc(rows[s.kind], func(row string) bool {
				return strings.Contains(row, "`"+code+"`") && s.shape.MatchString(row)
			}) {
				t.Errorf("%s: no test runs the %s %s of %s until the finding is gone", s.at, s.kind, s.shape, code)
			}
		}
	}
	for command := range unrun {
		if !used[command] {
			t.Errorf("nothing prints %s", command)
		}
	}
}

// sqlRows returns the rows whose SQL was run.
func sqlRows(text string) (rows []string) {
	for line := range strings.Lines(section(text, "cures")) {
		if c, is := readCure(line); is && c.mended != byWord {
			rows = append(rows, strings.ReplaceAll(line, `\|`, "|"))
		}
	}
	return rows
}

// commandRows returns the rows whose commands a shell ran.
func commandRows(text string) []string {
	return slices.Collect(strings.Lines(strings.ReplaceAll(section(text, "commands"), `\|`, "|")))
}

// section returns the part of the page that a test writes.
func section(text, name string) string {
	_, rest, _ := strings.Cut(text, "<!-- "+name+":begin -->")
	part, _, _ := strings.Cut(rest, "<!-- "+name+":end -->")
	return part
}

// remedySites finds the remedies in the source of the package, with the codes of the checks that reach them.
func remedySites(t *testing.T) (sites []site) {
	t.Helper()
	files := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	must(t, err)
	calls, looks, in := map[string][]string{}, map[string]string{}, map[string][]site{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, 0)
		must(t, err)
		for _, d := range f.Decls {
			function, is := d.(*ast.FuncDecl)
			if !is {
				readLooks(d, looks)
				continue
			}
			calls[function.Name.Name] = append(calls[function.Name.Name], identifiers(function.Body)...)
			in[function.Name.Name] = append(in[function.Name.Name], sitesIn(files, function.Body)...)
		}
	}
	codes := map[string][]string{}
	for code, look := range looks {
		for function := range reachable(look, calls) {
			codes[function] = append(codes[function], code)
		}
	}
	for function, found := range in {
		for _, s := range found {
			s.codes = slices.Sorted(slices.Values(codes[function]))
			sites = append(sites, s)
		}
	}
	return sites
}

// readLooks notes the function of each check that a declaration lists.
func readLooks(d ast.Decl, looks map[string]string) {
	ast.Inspect(d, func(n ast.Node) bool {
		literal, is := n.(*ast.CompositeLit)
		if !is {
			return true
		}
		code, look := "", ""
		for _, e := range literal.Elts {
			field, is := e.(*ast.KeyValueExpr)
			if !is {
				continue
			}
			switch fmt.Sprint(field.Key) {
			case "code":
				code = strings.Join(literals(field.Value), "")
			case "look":
				names := identifiers(field.Value)
				look = names[len(names)-1] // the innermost: inEachTable(look)
			}
		}
		if code != "" && look != "" {
			looks[code] = look
		}
		return true
	})
}

// reachable returns the functions that a function may call.
func reachable(from string, calls map[string][]string) map[string]bool {
	reached, next := map[string]bool{from: true}, []string{from}
	for len(next) > 0 {
		for _, name := range calls[next[0]] {
			if _, is := calls[name]; is && !reached[name] {
				reached[name] = true
				next = append(next, name)
			}
		}
		next = next[1:]
	}
	return reached
}

func identifiers(n ast.Node) (names []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is {
			names = append(names, id.Name)
		}
		return true
	})
	return names
}

// sitesIn finds the commands and the SQL that a function puts into remedies.
func sitesIn(files *token.FileSet, body ast.Node) (sites []site) {
	add := func(kind string, value ast.Expr) {
		texts := []ast.Expr{value}
		if list, is := value.(*ast.CompositeLit); is {
			texts = list.Elts
		}
		for _, e := range texts {
			sites = append(sites, site{at: files.Position(e.Pos()), kind: kind, shape: shape(e)})
		}
	}
	kinds := map[string]string{"Commands": "commands", "SQL": "SQL"}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if kind := kinds[fmt.Sprint(n.Key)]; kind != "" {
				add(kind, n.Value)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				field, is := left.(*ast.SelectorExpr)
				if !is || kinds[field.Sel.Name] == "" || i >= len(n.Rhs) {
					continue
				}
				value := n.Rhs[i]
				if call, is := value.(*ast.CallExpr); is && fmt.Sprint(call.Fun) == "append" {
					for _, e := range call.Args[1:] {
						add(kinds[field.Sel.Name], e)
					}
				} else if !slices.Contains(identifiers(value), "orNone") { // which puts [] in the place of null
					add(kinds[field.Sel.Name], value)
				}
			}
		}
		return true
	})
	return sites
}

// verbs are what a format replaces.
var verbs = regexp.MustCompile(`%(\[\d\])?[a-z]`)

// shape matches the texts that an expression can print, as far as its literals say.
func shape(e ast.Expr) *regexp.Regexp {
	var parts []string
	if literal, is := e.(*ast.BasicLit); is && literal.Kind == token.STRING {
		text, _ := strconv.Unquote(literal.Value)
		if unrun[text] != "" {
			return regexp.MustCompile(text)
		}
	}
	if call, is := e.(*ast.CallExpr); is && slices.Contains(identifiers(call.Fun), "Sprintf") {
		e = call.Args[0] // what it puts in is named by no test
	} else if binary, is := e.(*ast.BinaryExpr); is {
		return regexp.MustCompile(regexp.QuoteMeta(strings.Join(literals(binary), "")))
	}
	format := literals(e)
	if _, is := e.(*ast.CallExpr); !is {
		format = []string{strings.Join(format, "")}
	}
	for _, text := range format {
		for _, part := range verbs.Split(text, -1) {
			parts = append(parts, regexp.QuoteMeta(part))
		}
	}
	return regexp.MustCompile(strings.Join(parts, ".*"))
}

func literals(n ast.Node) (texts []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
			text, err := strconv.Unquote(literal.Value)
			if err == nil {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}
