package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/internal/localpg"
	documentation "github.com/txwork/txwork/internal/page"
)

const root = "../.."

// A terminal runs the commands of a page as a reader would type them, on its own server.
type terminal struct {
	t   *testing.T
	dir string
	env []string
	url string // of its server
}

func newTerminal(t *testing.T) terminal {
	t.Helper()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is not installed")
	}
	server, err := localpg.Start(t.Context(), localpg.Options{})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	return terminal{t, root, append(os.Environ(), asCommand+"=1", "PATH="+commandIn(t)+":"+os.Getenv("PATH"),
		"TXWORK_DATABASE_URL="+server.URL()), server.URL()}
}

// commandIn returns a directory in which this program is called txwork.
func commandIn(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	bin := t.TempDir()
	must(t, os.Symlink(self, filepath.Join(bin, "txwork")))
	return bin
}

func (x terminal) command(line string) *exec.Cmd {
	cmd := exec.CommandContext(x.t.Context(), "bash", "-o", "pipefail", "-c", line)
	cmd.Dir, cmd.Env = x.dir, x.env
	return cmd
}

func (x terminal) run(line string) string {
	x.t.Helper()
	out, err := x.command(line).CombinedOutput()
	if err != nil {
		x.t.Errorf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// failed returns the id of the only dead letter.
func (x terminal) failed() string {
	x.t.Helper()
	return strings.TrimSpace(x.run(`psql -At --command="SELECT id FROM txwork.outbox WHERE status = 3" ` + "'" + x.url + "'"))
}

// count returns how many messages meet the condition.
func (x terminal) count(condition string) int {
	x.t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(x.run(`psql -At --command="SELECT count(*) FROM txwork.outbox WHERE ` +
		condition + `" ` + "'" + x.url + "'")))
	must(x.t, err)
	return n
}

// instead adapts commands to the tests' server, which is fast rather than durable, and to a busy machine.
var instead = strings.NewReplacer(
	"txwork doctor", "txwork doctor --ignore durability --timeout 5m --statement-timeout 1m",
	"txwork top", "txwork top --statement-timeout 1m")

// The commands of the operations guide work one after the other.
func TestTheCommandsOfOperation(t *testing.T) {
	t.Parallel()
	x := newTerminal(t)
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hook.Close)
	shorter := strings.NewReplacer("--jobs 200000 --processes 4", "--jobs 2000 --processes 2", "git log", "git log -3",
		"https://example.org/hook", hook.URL, "--exec", "--until-empty --exec")
	lines := commandsOf(t, "docs/operations.md")
	for _, line := range lines {
		if strings.HasPrefix(line, "txwork redrive") {
			x.run("echo '{}' | txwork outbox send --topic dead && txwork outbox relay --until-empty --exec 'exit 65'")
			line = strings.ReplaceAll(line, "ID", x.failed())
		}
		x.run(instead.Replace(shorter.Replace(line)))
	}
	if len(lines) < 9 {
		t.Errorf("only %d commands were found", len(lines))
	}
	x.run(`psql -v ON_ERROR_STOP=1 --command='CALL txwork.outbox_maintain()' --command="CALL txwork.outbox_maintain(retention => '30 days')" "$TXWORK_DATABASE_URL"`)
	if left := x.count("status <> 2"); left != 0 {
		t.Errorf("%d messages are left that were not delivered", left)
	}
}

// Every command of the quickstart prints what the page says.
func TestTheQuickstart(t *testing.T) {
	t.Parallel()
	x := newTerminal(t)
	program := filepath.Join(t.TempDir(), "quickstart")
	x.run("go build -o " + program + " ./examples/quickstart")
	var shipped bytes.Buffer
	worker := x.command("exec " + program + " work")
	worker.Stdout = &shipped
	for _, line := range commandsOf(t, "docs/quickstart.md") {
		line = strings.Replace(line, "go run ./examples/quickstart", program, 1)
		switch {
		case line == program+" work":
			must(t, worker.Start())
			eventually(t, "the message without an address is a dead letter", func() bool { return x.failed() != "" })
		case strings.HasPrefix(line, "txwork redrive"):
			x.run(strings.Replace(line, "ID", x.failed(), 1))
			eventually(t, "both messages are delivered", func() bool { return x.count("status = 2") == 2 })
		default:
			x.run(instead.Replace(line))
		}
	}
	must(t, worker.Process.Signal(os.Interrupt))
	must(t, worker.Wait())
	source, err := os.ReadFile(filepath.Join(root, "examples/quickstart/main.go"))
	must(t, err)
	for _, b := range blocksOf(t, "docs/quickstart.md", "go") {
		if !strings.Contains(string(source), b) {
			t.Errorf("the program is not what the page shows:\n%s", b)
		}
	}
	const want = "order 1: shipped to Main Street 1\norder 2: shipped to Side Street 2\n"
	if shipped.String() != want {
		t.Errorf("the worker said %q, want %q", shipped.String(), want)
	}
}

// The commands of the page on security work as they are printed.
func TestTheCommandsOfSecurity(t *testing.T) {
	t.Parallel()
	x := newTerminal(t)
	blocks := blocksOf(t, "docs/security.md", "indented")
	for _, b := range blocks {
		x.run("set -e\n" + b)
	}
	if len(blocks) == 0 {
		t.Error("the page shows no commands")
	}
	if made := x.run(`psql -At "$TXWORK_DATABASE_URL" --command="SELECT count(*) FROM pg_roles ` +
		`WHERE rolname LIKE 'txwork\_%'"`); made != "6\n" {
		t.Errorf("%s roles were made", made)
	}
}

// The code of the guide to custom domains is exactly examples/customtable, with the migration that its command prints.
// The example is run and its package tested with the other examples.
func TestTheGuideToDomains(t *testing.T) {
	t.Parallel()
	x := terminal{t, root, append(os.Environ(), asCommand+"=1", "PATH="+commandIn(t)+":"+os.Getenv("PATH")), ""}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "migrations"), 0o755))
	for _, b := range blocksOf(t, "docs/domains.md", "sh") {
		x.run("cd " + dir + "\n" + b)
	}
	const example = "examples/customtable"
	if got, want := contentOf(t, dir, "migrations/00001_invoices.sql"),
		contentOf(t, root, example+"/migrations/00001_invoices.sql"); got != want {
		t.Errorf("the command prints another migration than %s has", example)
	}
	domain := contentOf(t, root, example+"/invoices/invoices.go")
	others := contentOf(t, root, example+"/invoices/invoices_test.go") + contentOf(t, root, example+"/main.go")
	for _, b := range blocksOf(t, "docs/domains.md", "go") {
		switch {
		case strings.Contains(domain, b):
			domain = strings.Replace(domain, b, "", 1)
		case !strings.Contains(others, b):
			t.Errorf("%s is not what the page shows:\n%s", example, b)
		}
	}
	_, domain, _ = strings.Cut(domain, "\n)\n") // skip the imports
	for line := range strings.Lines(domain) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			t.Errorf("the page does not show %q", line)
		}
	}
}

func contentOf(t *testing.T, dir, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	must(t, err)
	return string(text)
}

// commandsOf returns the lines of the page's blocks, except those that install the command or create and name the
// database.
func commandsOf(t *testing.T, name string) (lines []string) {
	t.Helper()
	for _, b := range blocksOf(t, name, "sh") {
		for line := range strings.Lines(b) {
			line = strings.TrimSpace(line)
			if line != "" && !prepares.MatchString(line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func blocksOf(t *testing.T, name, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	must(t, err)
	for _, b := range (documentation.Page{Text: string(text)}).Blocks() {
		if b.Language == language {
			blocks = append(blocks, b.Text)
		}
	}
	return blocks
}

var prepares = regexp.MustCompile(`^(go install|createdb|export) `)

// invoked matches a call of the command in a shell line, up to the end of that call.
var invoked = regexp.MustCompile(`(?:^|[|;&({] *)(?:[A-Z_]+=\S+ +)?(?:txwork|go run \./cmd/txwork) +([^|;&>)]*)`)

var quoted = regexp.MustCompile(`'[^']*'|"[^"]*"`)

// Subcommands and flags that the pages use exist.
func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	pages, err := documentation.Read(root)
	must(t, err)
	found := 0
	for _, p := range pages {
		for _, line := range p.Commands() {
			for _, m := range invoked.FindAllStringSubmatch(quoted.ReplaceAllString(line, "quoted"), -1) {
				found++
				if problem := wrongWith(strings.Fields(m[1])); problem != "" {
					t.Errorf("%s: %q: %s", p.Path, line, problem)
				}
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d calls were found", found)
	}
}

// wrongWith says which part of a call the command line does not accept.
func wrongWith(words []string) (problem string) {
	all := newRootCommand(&app{})
	all.InitDefaultCompletionCmd(words...)
	cmd, rest, err := all.Find(words)
	if err != nil {
		return err.Error()
	}
	if cmd.HasSubCommands() && len(rest) > 0 && regexp.MustCompile(`^[a-z]+$`).MatchString(rest[0]) {
		return "there is no " + cmd.CommandPath() + " " + rest[0]
	}
	for _, word := range rest {
		name, is := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if is && name != "" && name != "help" && flagOf(cmd, name) == nil {
			return cmd.CommandPath() + " has no flag --" + name
		}
	}
	return ""
}

func flagOf(cmd *cobra.Command, name string) *pflag.Flag {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f
	}
	return cmd.InheritedFlags().Lookup(name)
}

// flagAlone is a flag that a line names without its command.
var flagAlone = regexp.MustCompile(`^--([a-z][a-z-]+)\b`)

// Flags that a page names without a command belong to some command: of txwork, of a tool of the repository, or of
// PostgreSQL.
func TestDocumentedFlagsExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"disable-triggers": true} // a flag of pg_dump
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(&app{}))
	for _, tool := range []string{"bench/*.go", "bench/way/*.go", "bench/check/*.go", "proof/*/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, tool))
		must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			must(t, err)
			for _, m := range regexp.MustCompile(`"([a-z][a-z-]+)"`).FindAllStringSubmatch(string(text), -1) {
				known[m[1]] = true
			}
		}
	}
	pages, err := documentation.Read(root)
	must(t, err)
	found := 0
	for _, p := range pages {
		for _, code := range p.Code() {
			if m := flagAlone.FindStringSubmatch(code); m != nil {
				found++
				if !known[m[1]] {
					t.Errorf("%s names the flag %s, which no command has", p.Path, code)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d flags were found", found)
	}
}
