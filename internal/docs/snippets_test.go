package docs

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/txwork/txwork/internal/page"
)

// imports are the packages that Go blocks may use without an import.
var imports = []string{
	"context", "database/sql", "errors", "fmt", "log", "log/slog", "net", "net/http", "os", "os/signal", "syscall",
	"testing", "time",
	"github.com/google/uuid", "github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool",
	"github.com/pressly/goose/v3", "github.com/pressly/goose/v3/lock",
	ours + "workqueue", ours + "workqueue/codec", ours + "workqueue/codec/aesgcm", ours + "workqueue/keyed", ours +
		"workqueue/join",
	ours + "workqueue/periodic", ours + "workqueue/topics", ours + "workqueue/validate", ours + "schedule", ours +
		"outbox", ours + "outbox/outboxhttp", ours + "inbox", ours + "inbox/inboxhttp", ours + "timers", ours +
		"timers/alarms",
	ours + "jobs", ours + "reaper", ours + "service", ours + "migrations", ours + "txworktest", ours + "webhook",
	ours + "webui",
}

const ours = "github.com/txwork/txwork/"

// given are the variables that every block may use. Anything else that is undeclared is the reader's own.
const given = "var ctx context.Context; var pool *pgxpool.Pool; var id uuid.UUID; var err error; var body, secret " +
	"[]byte\n"

// givenOn are variables that the blocks of one page have instead or in addition.
var givenOn = map[string]string{
	"docs/alarms.md": "var secret string; var w http.ResponseWriter; var r *http.Request",
	"docs/inbox.md":  "var id string",
	"docs/jobs.md":   "var job *jobs.Job[Resize]",
}

// readersOwn matches errors about names of the reader's, or about where a block would stand in a program.
var readersOwn = regexp.MustCompile(`^(undefined: [a-zA-Z]\w*$|declared and not used|"[^"]+" imported (as \w+ )?and not used|too many return values|not enough return values|no new variables|missing return|invalid operation: .* \(variable of (struct )?type invalid type|.*invalid type)`)

// The Go code of the pages compiles as far as possible: each block may use what earlier blocks have declared.
func TestGoCompiles(t *testing.T) {
	t.Parallel()
	lookup := exports(t)
	found := 0
	for _, p := range pages(t) {
		text, blocks := program(p)
		found += blocks
		if blocks == 0 {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%s: %v", p.Path, err)
			continue
		}
		config := types.Config{
			Importer: importer.ForCompiler(fset, "gc", lookup),
			Error: func(err error) {
				if e := err.(types.Error); !readersOwn.MatchString(e.Msg) {
					t.Errorf("%v", e) // positions on the page, by //line
				}
			},
		}
		config.Check(p.Path, fset, []*ast.File{file}, nil)
	}
	if found < 30 {
		t.Errorf("only %d blocks were found", found)
	}
}

// program makes a program from a page's blocks: declarations at the top level, everything else in nested functions, so
// that a block sees earlier declarations and may redeclare them.
func program(p page.Page) (text string, blocks int) {
	var top, inner strings.Builder
	top.WriteString("package page\n")
	for _, path := range imports {
		fmt.Fprintf(&top, "import %q\n", path)
	}
	for _, b := range p.Blocks() {
		if b.Language != "go" {
			continue
		}
		blocks++
		code := strings.ReplaceAll(b.Text, "\n…\n", "\n\n")
		if topLevel.MatchString(code) {
			fmt.Fprintf(&top, "//line %s:%d\n%s", p.Path, b.Line, code)
			continue
		}
		tx := "var tx pgx.Tx"
		if strings.Contains(code, "workqueue.SQL(tx)") {
			tx = "var tx *sql.Tx"
		}
		fmt.Fprintf(&inner, "_ = func() error {\n%s%s\n{\n%s\n{\n//line %s:%d\n%s\n", given, tx, givenOn[p.Path],
			p.Path, b.Line, code)
	}
	closing := strings.Repeat("}\n}\nreturn nil\n}\n", strings.Count(inner.String(), "_ = func() error {\n"))
	return top.String() + "func all() {\n" + inner.String() + closing + "}\n", blocks
}

// topLevel matches a block that stands at the top level of a file.
var topLevel = regexp.MustCompile(`(?m)\A(func|type) `)

// exports finds the compiler's export data of each package.
func exports(t *testing.T) importer.Lookup {
	t.Helper()
	files, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

var compiled = sync.OnceValues(func() (map[string]string, error) {
	args := slices.Concat([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}, imports)
	out, err := exec.Command("go", args...).Output()
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[path] = file
	}
	return maps.Clone(files), err
})
