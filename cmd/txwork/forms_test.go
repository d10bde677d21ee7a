package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	documentation "github.com/txwork/txwork/internal/page"
)

// docs/json.md describes the output of --json. It is generated from the printed types and the comments of their fields.
// The tests compare what commands print with the page, also in all other tests of commands, see execute.

const formsPage = root + "/docs/json.md"

// A formField is a field of a form, as shown on the page.
type formField struct {
	path    string // for example rows[].id; a * stands for any name
	kind    string
	missing bool // may be missing
	null    bool
	meaning string
}

// evident fields need no explanation.
var evident = []string{"created_at", "database", "directory", "ended_at", "id", "key", "kind", "max_attempts",
	"name", "paused", "queue", "role", "schema", "table", "tables", "topic", "version"}

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
)

// fieldsOf returns the fields of a type, including those of nested types.
func fieldsOf(t *testing.T, of reflect.Type) (fields []formField) {
	t.Helper()
	for field := range of.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "" && field.Anonymous:
			for _, f := range fieldsOf(t, inner) {
				f.missing = f.missing || field.Type != inner
				fields = append(fields, f)
			}
			continue
		case name == "-" || !field.IsExported():
			continue
		case name == "":
			t.Errorf("%s.%s has no name in JSON", of, field.Name)
		}
		f := formField{path: name, missing: options != "", null: field.Type != inner && options == "",
			meaning: meaningOf(t, of, field.Name)}
		var within reflect.Type
		f.kind, within = kindOf(inner)
		if f.meaning == "" && !slices.Contains(evident, name) {
			t.Errorf("%s.%s has no comment, which %s would show", of, field.Name, formsPage)
		}
		fields = append(fields, f)
		if within == nil {
			continue
		}
		between := "."
		if strings.HasPrefix(f.kind, "array") {
			between = "[]."
		} else if inner.Kind() == reflect.Map {
			between = ".*."
		}
		for _, f := range fieldsOf(t, within) {
			f.path = name + between + f.path
			fields = append(fields, f)
		}
	}
	return fields
}

// kindOf returns the JSON name of a type, and the struct whose fields the page lists, if any.
func kindOf(of reflect.Type) (kind string, within reflect.Type) {
	switch {
	case of == reflect.TypeFor[time.Time]():
		return "time", nil
	case of == reflect.TypeFor[uuid.UUID]():
		return "UUID", nil
	case of == reflect.TypeFor[[]byte]():
		return "string, base64", nil
	case of.Implements(textMarshaler):
		return "string", nil
	case of.Implements(jsonMarshaler):
		return "object", nil
	}
	switch of.Kind() {
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "boolean", nil
	case reflect.Float64:
		return "number", nil
	case reflect.Slice:
		kind, within = kindOf(of.Elem())
		return "array of " + kind + "s", within
	case reflect.Map:
		_, within = kindOf(of.Elem())
		return "object", within
	case reflect.Struct:
		return "object", of
	case reflect.Interface:
		return "object", nil
	}
	return "integer", nil
}

// sources are the structs of parsed packages, by folder.
type sources map[string]map[string]*ast.StructType

var parsed = sources{}

// meaningOf returns the comment of a field in the source.
func meaningOf(t *testing.T, of reflect.Type, field string) string {
	t.Helper()
	dir := strings.TrimPrefix(of.PkgPath(), "github.com/txwork/txwork/")
	if dir == "main" {
		dir = "cmd/txwork"
	}
	structs := parsed[dir]
	if structs == nil {
		structs = structsIn(t, filepath.Join(root, dir))
		parsed[dir] = structs
	}
	declared := structs[of.Name()]
	if declared == nil {
		t.Fatalf("%s is not declared in %s", of, dir)
	}
	for _, f := range declared.Fields.List {
		if slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.Name == field }) {
			text := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
			text = strings.TrimPrefix(strings.TrimPrefix(text, field+" "), "is ")
			return strings.TrimSuffix(strings.ReplaceAll(text, "|", `\|`), ".")
		}
	}
	return ""
}

func structsIn(t *testing.T, dir string) map[string]*ast.StructType {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	found := map[string]*ast.StructType{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		must(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			if spec, is := n.(*ast.TypeSpec); is {
				if s, is := spec.Type.(*ast.StructType); is {
					found[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	return found
}

// formsOf returns the types that a command prints, or nil if it has no --json.
func formsOf(cmd *cobra.Command) []any {
	if f := cmd.Flags().Lookup("json"); f != nil {
		return f.Value.(*jsonValue).forms
	}
	return nil
}

// eachWithJSON visits the commands with --json, in the order of the help.
func eachWithJSON(visit func(cmd *cobra.Command, forms []any)) {
	eachCommand(newRootCommand(&app{}), func(cmd *cobra.Command) {
		if forms := formsOf(cmd); forms != nil {
			visit(cmd, forms)
		}
	})
}

// TestTheFormsPage compares the page with the types.
func TestTheFormsPage(t *testing.T) {
	var titles []string
	sections := map[string]string{}
	eachWithJSON(func(cmd *cobra.Command, forms []any) {
		text := ""
		for _, form := range forms {
			text += formTable(t, form)
		}
		for i, title := range titles { // commands with the same output share a section
			if sections[title] == text {
				titles[i] += ", `" + cmd.CommandPath() + "`"
				sections[titles[i]] = text
				return
			}
		}
		title := "`" + cmd.CommandPath() + "`"
		titles, sections[title] = append(titles, title), text
	})
	want := "### On failure\n" + formTable(t, failure{})
	for _, title := range titles {
		want += "### " + title + "\n" + sections[title]
	}
	if *update {
		must(t, documentation.Write(formsPage, "forms", want))
	}
	if current, err := documentation.Holds(formsPage, "forms", want); err != nil || !current {
		t.Errorf("%s is not what the commands print (%v): go test ./cmd/txwork -run TestTheFormsPage -update",
			formsPage,
			err)
	}
}

func formTable(t *testing.T, form any) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n| field | type | meaning |\n|---|---|---|\n")
	for _, f := range fieldsOf(t, reflect.TypeOf(form)) {
		kind := f.kind
		if f.null {
			kind += " or null"
		}
		if f.missing {
			kind += ", may be missing"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.path, kind, f.meaning)
	}
	b.WriteString("\n")
	return b.String()
}

// A jsonForm is a table of the page.
type jsonForm map[string]formField

var formRow = regexp.MustCompile("^\\| `([^`]+)` \\| ([^|]+) \\| .* ?\\|$")

// readForms reads the page: the forms of each command, and the form of failures under the empty name.
func readForms(t *testing.T) map[string][]jsonForm {
	t.Helper()
	text, err := os.ReadFile(formsPage)
	must(t, err)
	forms := map[string][]jsonForm{}
	var commands []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch title, is := strings.CutPrefix(line, "### "); {
		case is && title == "On failure":
			commands = []string{""}
		case is:
			commands = strings.Split(strings.ReplaceAll(title, "`", ""), ", ")
		case line == "| field | type | meaning |":
			for _, c := range commands {
				forms[c] = append(forms[c], jsonForm{})
			}
		}
		if m := formRow.FindStringSubmatch(line); m != nil {
			f := formField{path: m[1], kind: m[2]}
			f.kind, f.missing = strings.CutSuffix(f.kind, ", may be missing")
			f.kind, f.null = strings.CutSuffix(f.kind, " or null")
			for _, c := range commands {
				forms[c][len(forms[c])-1][f.path] = f
			}
		}
	}
	return forms
}

// A reading compares one value with one form.
type reading struct {
	form  jsonForm
	seen  map[string]bool
	wrong []string
}

func (r *reading) wrongf(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// object compares the fields below a prefix such as rows[]. with the form.
func (r *reading) object(prefix string, fields map[string]any) {
	for name, value := range fields {
		path := prefix + name
		if _, known := r.form[path]; !known {
			r.wrongf("%s is not on the page", path)
			continue
		}
		r.seen[path] = true
		r.value(path, value)
	}
	for path, f := range r.form {
		name, below := strings.CutPrefix(path, prefix)
		if below && !strings.ContainsAny(name, ".[") && !f.missing {
			if _, there := fields[name]; !there {
				r.wrongf("%s is missing", path)
			}
		}
	}
}

// below tells whether the page has fields below a prefix.
func (r *reading) below(prefix string) bool {
	for path := range r.form {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

func (r *reading) value(path string, value any) {
	f := r.form[path]
	kind, of, _ := strings.Cut(f.kind, " of ")
	right := true
	switch v := value.(type) {
	case nil:
		right = f.null
	case bool:
		right = kind == "boolean"
	case json.Number:
		right = kind == "number" || kind == "integer" && !strings.ContainsAny(v.String(), ".e")
	case string:
		right = isText(kind, v)
	case []any:
		right = kind == "array"
		for _, one := range v {
			switch one := one.(type) {
			case map[string]any:
				if r.below(path + "[].") {
					r.object(path+"[].", one)
				}
			case string:
				right = right && of == "strings"
			case json.Number:
				right = right && of == "integers"
			}
		}
	case map[string]any:
		right = kind == "object"
		switch {
		case r.below(path + ".*."):
			for _, one := range v {
				r.object(path+".*.", one.(map[string]any))
			}
		case r.below(path + "."):
			r.object(path+".", v)
		}
	}
	if !right {
		r.wrongf("%s is %v, want %s", path, value, f.kind)
	}
}

func isText(kind, text string) bool {
	switch kind {
	case "time":
		_, err := time.Parse(time.RFC3339Nano, text)
		return err == nil
	case "UUID":
		return uuid.Validate(text) == nil
	}
	return strings.HasPrefix(kind, "string")
}

// formed fails the test unless each line has one of the forms that the page lists for a command, or the form of
// failures. It returns the fields that were present, by the index of the form.
func formed(t *testing.T, command, lines string) []map[string]bool {
	t.Helper()
	all := readForms(t)
	if len(all[command]) == 0 {
		t.Fatalf("%s has no form for %s", formsPage, command)
	}
	forms := append(slices.Clone(all[command]), all[""]...)
	seen := make([]map[string]bool, len(forms))
	for line := range strings.Lines(lines) {
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.UseNumber()
		var fields map[string]any
		if err := decoder.Decode(&fields); err != nil {
			t.Errorf("%s --json prints %q: %v", command, line, err)
			continue
		}
		var wrong []string
		fits := slices.IndexFunc(forms, func(f jsonForm) bool {
			r := reading{form: f, seen: map[string]bool{}}
			r.object("", fields)
			if len(r.wrong) > 0 {
				wrong = append(wrong, strings.Join(r.wrong, ", "))
				return false
			}
			seen[len(wrong)] = r.seen // the number of forms tried before is the form's index
			return true
		})
		if fits < 0 {
			t.Errorf("%s --json prints %swhich is no form of %s: %s", command, line, formsPage,
				strings.Join(wrong, "; or "))
		}
	}
	return seen
}

// printsForms fails the test unless the output of a command line is as the page says. Of a relay's standard error only
// the last line is JSON.
func printsForms(t *testing.T, args []string, stdout, stderr string) (command string, seen []map[string]bool) {
	t.Helper()
	cmd, _, err := newRootCommand(&app{}).Find(args)
	if err != nil || formsOf(cmd) == nil {
		return "", nil
	}
	if command = cmd.CommandPath(); command == "txwork outbox relay" {
		lines := strings.SplitAfter(strings.TrimSuffix(stderr, "\n"), "\n")
		if last := lines[len(lines)-1]; strings.HasPrefix(last, "{") {
			stdout = last
		}
	}
	return command, formed(t, command, stdout)
}
