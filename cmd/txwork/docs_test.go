package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/internal/localpg"
	documentation "github.com/txwork/txwork/internal/page"
)

const root = "../.."

// The commands of the README work, one after the other on a server of their own.
func TestTheReadmesCommands(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is not installed")
	}
	server, err := localpg.Start(t.Context(), localpg.Options{})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hook.Close)
	self, err := os.Executable()
	must(t, err)
	bin := t.TempDir()
	must(t, os.Symlink(self, filepath.Join(bin, "txwork")))
	run := func(line string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", line)
		cmd.Env = append(os.Environ(), asCommand+"=1", "PATH="+bin+":"+os.Getenv("PATH"), "TXWORK_DATABASE_URL="+server.URL())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}

	instead := strings.NewReplacer( // of what a test cannot know or wait for
		"txwork doctor", "txwork doctor --ignore durability", // of a server that is fast in the place of durable
		"--jobs 200000 --processes 4", "--jobs 2000 --processes 2", "git log", "git log -3",
		"https://example.org/hook", hook.URL, "--exec", "--until-empty --exec")
	lines := readmesCommands(t)
	for _, line := range lines {
		if strings.HasPrefix(line, "txwork redrive") {
			run("echo '{}' | txwork outbox send --topic dead && txwork outbox relay --until-empty --exec 'exit 65'")
			line = strings.ReplaceAll(line, "ID", strings.TrimSpace(run(`psql -At --command="SELECT id FROM txwork.outbox WHERE status = 3" "$TXWORK_DATABASE_URL"`)))
		}
		run(instead.Replace(line))
	}
	if len(lines) < 9 {
		t.Errorf("only %d commands were found", len(lines))
	}
	run(`psql -v ON_ERROR_STOP=1 --command='CALL txwork.outbox_maintain()' --command="CALL txwork.outbox_maintain(retention => '30 days')" "$TXWORK_DATABASE_URL"`)
	if left := run(`psql -At --command="SELECT count(*) FROM txwork.outbox WHERE status <> 2" "$TXWORK_DATABASE_URL"`); left != "0\n" {
		t.Errorf("%s messages are left that were not delivered", left)
	}
}

// readmesCommands are the lines of its blocks but those that install the command and name the database.
func readmesCommands(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	must(t, err)
	for _, b := range (documentation.Page{Text: string(text)}).Blocks() {
		if b.Language != "sh" {
			continue
		}
		for line := range strings.Lines(b.Text) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "go install ") && !strings.HasPrefix(line, "export ") {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// invoked is a call of the command line in a shell's line, up to what ends it there.
var invoked = regexp.MustCompile(`(?:^|[|;&({] *)(?:[A-Z_]+=\S+ +)?(?:txwork|go run \./cmd/txwork) +([^|;&>]*)`)

var quoted = regexp.MustCompile(`'[^']*'|"[^"]*"`)

// What the pages call is there: subcommands and their flags.
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

// wrongWith tells what of a call the command line does not know.
func wrongWith(words []string) (problem string) {
	all := newRootCommand(&app{})
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

// flagAlone is a flag that stands by itself in a line.
var flagAlone = regexp.MustCompile(`^--([a-z][a-z-]+)\b`)

// Flags that a page names by themselves are some command's: of txwork, of a tool of the repository, or of PostgreSQL.
func TestDocumentedFlagsExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"disable-triggers": true} // pg_dump's
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(&app{}))
	for _, tool := range []string{"bench/*.go", "internal/bench/check/*.go", "proof/*/*.go"} {
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
					t.Errorf("%s names the flag %s, which nothing has", p.Path, code)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d flags were found", found)
	}
}
