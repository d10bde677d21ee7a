package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/localpg"
)

// A privateServer is what postgres prints without a command.
type privateServer struct {
	URL string `json:"url"` // connects the user who started it, as the server's superuser, to the database postgres
}

// An exitCode ends the process with the code of a command that it ran. The command has reported its error itself.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func newPostgresCommand(a *app) *cobra.Command {
	cmd := newCommand("postgres [-- COMMAND [ARG...]]", "Run a command with a private PostgreSQL server",
		cobra.ArbitraryArgs)
	cmd.Flags().SetInterspersed(false) // flags after COMMAND are its own
	asJSON := jsonFlag(cmd, privateServer{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, name := range []string{"database-url", "schema"} {
			if cmd.Flags().Changed(name) {
				return usagef("postgres starts an empty server of its own: omit --%s", name)
			}
		}
		if len(args) == 0 {
			return a.withServer(cmd.Context(), func(url string) error {
				return a.serveURL(cmd.Context(), url, *asJSON)
			})
		}
		if *asJSON {
			return usagef("--json is for the URL, which is printed without COMMAND only")
		}
		command := exec.Command(args[0], args[1:]...)
		if command.Err != nil {
			return command.Err
		}
		return a.withServer(cmd.Context(), func(url string) error { return a.runOn(cmd.Context(), url, command) })
	}
	return cmd
}

// withServer runs f with the URL of a private server, and removes the server afterwards.
func (a *app) withServer(ctx context.Context, f func(url string) error) error {
	server, err := localpg.Start(ctx, localpg.Options{})
	if err != nil {
		return err
	}
	err = f(server.URL())
	if stopped := server.Stop(); stopped != nil {
		a.logger().Warn("the server's directory could not be removed", "directory", server.Dir(), "error", stopped)
	}
	return err
}

// serveURL prints the URL and waits for a signal.
func (a *app) serveURL(ctx context.Context, url string, asJSON bool) error {
	var err error
	if asJSON {
		err = a.printJSON(privateServer{url})
	} else {
		_, err = fmt.Fprintln(a.stdout, url)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stderr, "txwork: serving until interrupted; then the server and its data are removed")
	<-ctx.Done()
	return nil
}

// runOn runs the command, passes signals on to it, and returns its exit code as an error unless it is 0.
//
// The command stays in this process group, so that it can use the terminal.
func (a *app) runOn(ctx context.Context, url string, command *exec.Cmd) error {
	command.Env = append(os.Environ(), variable(databaseURLEnv, url), variable("DATABASE_URL", url))
	command.Stdin, command.Stdout, command.Stderr = a.stdin, shared(a.stdout), shared(a.stderr)

	// From now on the command decides what a signal does, so main no longer ends the process at the second.
	passed := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	signal.Reset(passed...)
	signals := make(chan os.Signal, len(passed))
	signal.Notify(signals, passed...)
	defer signal.Stop(signals)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM || !fromTerminal() {
				_ = command.Process.Signal(s) // it fails only if the command has ended
			}
		case err := <-ended:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return exitCode(shellCode(exit.ProcessState))
			}
			return err
		}
	}
}
