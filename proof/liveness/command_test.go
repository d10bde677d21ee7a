package liveness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// commands are what an operator runs when something stands still.
var commands = []string{"stats", "list jobs --status failed", "jobs queues", "schedules list", "doctor --fail-on never"}

// commandLine runs one of the commands, chosen by the name. Consecutive numbers at the end of the name choose all
// commands in turn.
func commandLine(ctx context.Context, w *world, name string) error {
	sum := 0
	for _, b := range []byte(name) {
		sum += int(b)
	}
	return w.command(ctx, commands[sum%len(commands)])
}

func (w *world) command(ctx context.Context, command string) error {
	program, err := txwork()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, append(strings.Fields(command), "--schema", w.Schema)...)
	cmd.Env = append(os.Environ(), "TXWORK_DATABASE_URL="+w.URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("txwork %s: %w\n%s", command, err, out)
	}
	return nil
}

// built is the directory of the built command.
var built string

// txwork is the command, which is built once.
var txwork = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "txwork-liveness-"); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", built, "github.com/txwork/txwork/cmd/txwork").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return filepath.Join(built, "txwork"), err
})

// withCommand builds the command while the first tests create their tables.
type withCommand struct{ *testing.M }

func (m withCommand) Run() int {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		txwork() // a test that needs the command gets the error
	}()
	defer func() { <-ended }()
	return m.M.Run()
}
