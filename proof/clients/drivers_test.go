package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A language knows how to run a file. Its command is nil if the driver is missing. Its handler is the statement with
// which the handlers of the pages print a row, and pause one that makes a handler slow.
type language struct {
	command        func(t *testing.T) []string
	install        string
	handler, pause string
}

// languages are those whose programs run here, by the name of their blocks. The other pages say that they were not run.
var languages = map[string]language{
	"python": {
		python, "apt-get install python3-psycopg",
		"print(topic, payload.decode(), flush=True)", "time.sleep(0.03)",
	},
	"js": {
		node, "npm install --prefix \"$HOME/.cache/txwork/node\" pg, with Node from apt-get install nodejs",
		"console.log(kind, args.toString())", "await new Promise((resolve) => setTimeout(resolve, 500))",
	},
	"bash": {
		bash, "apt-get install postgresql-client",
		`printf '%s %s\n' "$1" "$2"`, "sleep 0.2",
	},
}

// python finds an interpreter that has psycopg 3. A machine may have several.
func python(t *testing.T) []string {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import psycopg").Run() == nil {
			return []string{name}
		}
	}
	return nil
}

func node(t *testing.T) []string {
	command := exec.CommandContext(t.Context(), "node", "-e", "require('pg')")
	command.Env = environment()
	if command.Run() != nil {
		return nil
	}
	return []string{"node"}
}

func bash(*testing.T) []string {
	if _, err := exec.LookPath("psql"); err != nil {
		return nil
	}
	return []string{"bash"}
}

// environment names where `.ci/drivers` has installed packages of npm.
func environment() []string {
	env := os.Environ()
	if home, err := os.UserHomeDir(); err == nil && os.Getenv("NODE_PATH") == "" {
		env = append(env, "NODE_PATH="+filepath.Join(home, ".cache", "txwork", "node", "node_modules"))
	}
	return env
}
