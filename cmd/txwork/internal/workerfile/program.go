package workerfile

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// programs reports what keeps a command from being started: a program or its interpreter that is not there, and text
// that is none for a shell. Of a text for the shell only the first word is looked at, if it is a plain one: what the
// others mean is known only when it is run.
func (s *sections) programs(v value, e *Exec, text string) {
	if len(e.Argv) == 0 || e.Argv[0] == "" {
		return
	}
	path, err := e.find(e.Argv[0])
	if err != nil {
		s.report(v, "%v", err)
		return
	}
	if text == "" {
		s.interpreter(v, path)
		return
	}
	if said, content := e.ask("-n", "-c", text); !content {
		s.report(v, "cannot be read by sh: %s", said)
		return
	}
	word := firstWord.FindStringSubmatch(text)
	switch {
	case word == nil:
	case strings.Contains(word[1], "/"):
		if path, err := e.find(word[1]); err != nil {
			s.report(v, "%v", err)
		} else {
			s.interpreter(v, path)
		}
	default:
		if _, content := e.ask("-c", `command -v "$0"`, word[1]); !content {
			s.report(v, "begins with %q, which is no command of sh and no program in PATH", word[1])
		}
	}
}

// firstWord matches a text for the shell that begins with a plain word, which is the name of a command.
var firstWord = regexp.MustCompile(`^\s*([A-Za-z0-9_./+][A-Za-z0-9_./+-]*)(?:\s|[;&|<>]|$)`)

// find finds a program as the system does when the command is started.
func (e *Exec) find(name string) (string, error) {
	if strings.Contains(name, "/") && !filepath.IsAbs(name) && e.Directory != "" {
		return exec.LookPath(filepath.Join(e.Directory, name))
	}
	return exec.LookPath(name)
}

// askLimit is long enough for a busy machine.
const askLimit = 10 * time.Second

// ask runs sh, which does not run any program then, in the surroundings of the command. It returns the first line that
// sh writes, and whether it is content. If it could not be asked, for example because the environment is too large, it
// counts as content: the command's first run will tell.
func (e *Exec) ask(args ...string) (said string, content bool) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.Argv[0], args...)
	cmd.Dir, cmd.Env = e.Directory, slices.Concat(os.Environ(), e.Env)
	out, err := cmd.CombinedOutput()
	said, _, _ = strings.Cut(string(out), "\n")
	return said, !errors.As(err, new(*exec.ExitError)) || ctx.Err() != nil
}

// interpreter reports a script whose first line names a program that is not there.
func (s *sections) interpreter(v value, script string) {
	f, err := os.Open(script)
	if err != nil {
		return // it can be run without being read
	}
	defer f.Close()
	const most = 256
	line, _ := bufio.NewReader(io.LimitReader(f, most)).ReadString('\n')
	fields := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(fields) == 0 {
		return
	}
	if len(fields) > 1 && filepath.Base(fields[0]) == "env" && !strings.HasPrefix(fields[1], "-") &&
		!strings.Contains(fields[1], "=") {
		fields = fields[1:]
	}
	if _, err := exec.LookPath(fields[0]); err != nil {
		s.report(v, "%s cannot be run: %v", script, err)
	}
}
