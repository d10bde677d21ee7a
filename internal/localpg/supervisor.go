//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

//go:embed supervisor.sh
var supervisorScript string

// supervisor is the process that owns one server. See supervisor.sh for what
// it does and the commands it takes. It costs no goroutine.
type supervisor struct {
	cmd      *exec.Cmd
	commands *os.File // the server lives until this is closed
	status   *os.File
	lines    *bufio.Reader // reads status
	serving  bool          // a server was started and has not been seen to end
}

// startSupervisor starts a supervisor for a server in dir. The server's cluster is a copy of the empty one, if there is
// one.
func startSupervisor(dir, bin, empty string, owner *owner, lock *os.File) (*supervisor, error) {
	stdin, commands, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("localpg: supervisor: %w", err)
	}
	defer stdin.Close()
	status, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("localpg: supervisor: %w", err), commands.Close())
	}
	defer stdout.Close()

	arguments := append([]string{"-c", supervisorScript, "txwork-postgres", dir, bin, empty}, initdbArgs...)
	cmd := exec.Command("/bin/sh", arguments...)
	cmd.Dir = "/" // the owner may not be able to enter our directory
	cmd.Env = serverEnv(dir)
	cmd.Stdin, cmd.Stdout = stdin, stdout
	cmd.ExtraFiles = []*os.File{lock}
	// Its own session, so that Ctrl-C in the terminal does not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: owner.credential()}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("localpg: supervisor: %w", err), commands.Close(), status.Close())
	}
	return &supervisor{cmd: cmd, commands: commands, status: status, lines: bufio.NewReader(status)}, nil
}

// serverEnv is this process's environment without the variables that would change how the server behaves.
func serverEnv(dir string) []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "PG"), strings.HasPrefix(name, "LC_"):
		case name == "LANG", name == "LANGUAGE", name == "TZ", name == "HOME", name == "PATH":
		default:
			env = append(env, entry)
		}
	}
	// The script needs a few standard programs whatever PATH says.
	path := strings.TrimPrefix(os.Getenv("PATH")+":/usr/bin:/bin", ":")
	return append(env, "LC_ALL=C", "TZ=UTC", "HOME="+dir, "PATH="+path)
}

func (s *supervisor) send(command string) error {
	if _, err := s.commands.WriteString(command + "\n"); err != nil {
		return fmt.Errorf("localpg: the server's supervisor is gone: %w", err)
	}
	if command == "start" {
		s.serving = true
	}
	return nil
}

// ended reports whether the server has ended since it was started, waiting at
// most limit for that to happen.
func (s *supervisor) ended(limit time.Duration) (bool, error) {
	if err := s.status.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return false, fmt.Errorf("localpg: supervisor: %w", err)
	}
	// A status is written in one piece, so a line is never read in part.
	_, err := s.lines.ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("localpg: the server's supervisor is gone: %w", err)
	}
	s.serving = false
	return true, nil
}

// close lets the supervisor stop the server and remove the directory, and waits up to limit. Whatever remains is left
// to finish.
func (s *supervisor) close(limit time.Duration) {
	_ = s.commands.Close()
	stuck := time.AfterFunc(limit, func() { _ = s.cmd.Process.Kill() })
	defer stuck.Stop()
	_ = s.cmd.Wait() // the directory says more than the exit status
	_ = s.status.Close()
}
