package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

// Python finds an interpreter that has psycopg 3, nil if there is none. A machine may have several.
func Python(ctx context.Context) []string {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, name, "-c", "import psycopg").Run() == nil {
			return []string{name}
		}
	}
	return nil
}

// Node finds Node with node-postgres.
func Node(ctx context.Context) []string {
	command := exec.CommandContext(ctx, "node", "-e", "require('pg')")
	command.Env = Environment()
	if command.Run() != nil {
		return nil
	}
	return []string{"node"}
}

// Bash finds bash with psql.
func Bash(context.Context) []string {
	if _, err := exec.LookPath("psql"); err != nil {
		return nil
	}
	return []string{"bash"}
}

// Environment names where `.ci/drivers` has installed packages of npm.
func Environment() []string {
	env := os.Environ()
	if home, err := os.UserHomeDir(); err == nil && os.Getenv("NODE_PATH") == "" {
		env = append(env, "NODE_PATH="+filepath.Join(home, ".cache", "txwork", "node", "node_modules"))
	}
	return env
}
