//go:build unix

package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/page"
)

const document = "../../docs/backup.md"

// blocks are the document's blocks by name. The name follows the language; a block without one belongs to no recipe.
var blocks = sync.OnceValues(func() (map[string]string, error) {
	text, err := os.ReadFile(document)
	named := map[string]string{}
	for _, b := range (page.Page{Text: string(text)}).Blocks() {
		if named[b.Name] != "" {
			err = fmt.Errorf("two blocks are named %q", b.Name)
		}
		named[b.Name] = b.Text
	}
	return named, err
})

// Each block of the document has a name, and a test that runs it.
func TestEveryBlockIsRun(t *testing.T) {
	t.Parallel()
	named, err := blocks()
	if err != nil {
		t.Fatal(err)
	}
	if len(named) < 10 {
		t.Errorf("the document has only %d blocks", len(named))
	}
	tests, err := os.ReadFile("recipes_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for name := range named {
		if !strings.Contains(string(tests), `("`+name+`")`) { // a run with changes does not count
			t.Errorf("no recipe runs the block %q", name)
		}
	}
}

// A recipe runs blocks of the document.
type recipe struct {
	*testing.T
	dir         string // directory for its files
	bin         string // directory of PostgreSQL's programs
	owner       *syscall.Credential
	variables   map[string]string
	defined     string          // blocks that define functions for those that follow
	served      *localpg.Server // server of OLD
	application *application    // application on OLD
}

// newRecipe creates the directories that blocks write to, and names them in variables.
func newRecipe(t *testing.T) *recipe {
	t.Helper()
	owner, err := localpg.Credential()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "txwork-backup-") // the servers' owner cannot enter a test's own directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &recipe{T: t, dir: dir, owner: owner}
	r.variables = map[string]string{"DUMP": dir + "/dump", "ARCHIVE": dir + "/archive", "BASE": dir + "/base"}
	r.own(dir)
	if err := os.Mkdir(r.variables["ARCHIVE"], 0o700); err != nil {
		t.Fatal(err)
	}
	r.own(r.variables["ARCHIVE"])
	return r
}

func (r *recipe) own(path string) {
	r.Helper()
	if r.owner == nil {
		return
	}
	if err := os.Chown(path, int(r.owner.Uid), int(r.owner.Gid)); err != nil {
		r.Fatal(err)
	}
}

func (r *recipe) block(name string) string {
	r.Helper()
	named, err := blocks()
	if err != nil {
		r.Fatal(err)
	}
	if named[name] == "" {
		r.Fatalf("the document has no block %q", name)
	}
	return named[name]
}

// rowsOf returns the cells of a table that is between markers, without its head.
func (r *recipe) rowsOf(section string) (rows [][]string) {
	r.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		r.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- "+section+":begin -->")
	table, _, found := strings.Cut(rest, "<!-- "+section+":end -->")
	if !found {
		r.Fatalf("the document has no section %q", section)
	}
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

// settings returns the settings in a block for postgresql.conf.
func (r *recipe) settings(name string) map[string]string {
	r.Helper()
	settings := map[string]string{}
	for line := range strings.Lines(r.block(name)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		settings[key] = os.Expand(strings.Trim(value, "'"), func(v string) string { return r.variables[v] })
	}
	return settings
}

// define makes the functions of a block known to those that run later.
func (r *recipe) define(name string) {
	r.Helper()
	r.defined += r.block(name) + "\n"
}

// run runs a block, with some parts replaced, as the user that owns the servers' files.
func (r *recipe) run(name string, instead ...string) {
	r.Helper()
	if out, err := r.try(name, instead...); err != nil {
		r.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// try is run for a block that may fail. It returns what the block prints.
func (r *recipe) try(name string, instead ...string) (string, error) {
	r.Helper()
	path := r.bin
	if strings.Contains(r.block(name), "txwork migrate") {
		path += ":" + r.program()
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Minute) // building the program may take long
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c",
		r.defined+strings.NewReplacer(instead...).Replace(r.block(name)))
	cmd.Dir = r.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.owner, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
	for variable, value := range r.variables {
		cmd.Env = append(cmd.Env, variable+"="+value)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// server starts a private server, puts its URL into a variable, and finds its programs.
func (r *recipe) server(variable string, settings map[string]string) *localpg.Server {
	r.Helper()
	s, err := localpg.Start(r.Context(), localpg.Options{Settings: settings})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { s.Stop() })
	r.variables[variable] = s.URL()
	if r.bin != "" {
		return s
	}
	conn, err := pgx.Connect(r.Context(), s.URL())
	if err != nil {
		r.Fatal(err)
	}
	defer conn.Close(r.Context())
	if err := conn.QueryRow(r.Context(),
		"SELECT setting FROM pg_config WHERE name = 'BINDIR'").Scan(&r.bin); err != nil {
		r.Fatal(err)
	}
	for _, program := range []string{"psql", "pg_dump", "pg_restore", "pg_basebackup"} {
		if _, err := os.Stat(filepath.Join(r.bin, program)); err != nil {
			r.Skipf("this PostgreSQL has no %s", program)
		}
	}
	return s
}

// withoutData starts a server whose data directory the recipe fills. A variable names that directory.
func (r *recipe) withoutData() *localpg.Server {
	r.Helper()
	s := r.server("NEW", nil)
	if err := s.Crash(); err != nil {
		r.Fatal(err)
	}
	r.variables["DATA"] = filepath.Join(s.Dir(), "data")
	if err := os.RemoveAll(r.variables["DATA"]); err != nil {
		r.Fatal(err)
	}
	return s
}

// either returns a URL for whichever of the servers accepts writes.
func either(servers ...*localpg.Server) string {
	var hosts, ports []string
	for _, s := range servers {
		hosts, ports = append(hosts, s.Dir()), append(ports, "5432")
	}
	query := url.Values{
		"host": {strings.Join(hosts, ",")}, "port": {strings.Join(ports, ",")},
		"sslmode": {"disable"}, "target_session_attrs": {"read-write"},
	}
	return "postgres://postgres@/postgres?" + query.Encode()
}

// program builds the command in a directory that the servers' owner may enter, and returns that directory.
func (r *recipe) program() string {
	r.Helper()
	dir := filepath.Join(r.dir, "bin")
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		return dir
	} else if err != nil {
		r.Fatal(err)
	}
	if out, err := exec.CommandContext(r.Context(), "go", "build", "-o", dir,
		"github.com/txwork/txwork/cmd/txwork").CombinedOutput(); err != nil {
		r.Fatalf("txwork does not build: %v\n%s", err, out)
	}
	return dir
}
