package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/httpserve"
	"github.com/txwork/txwork/webui"
)

// defaultDashboardListen accepts connections from this machine only.
const defaultDashboardListen = "127.0.0.1:8088"

// maxDashboardConnections is enough for a hundred browsers, each of which keeps up to six open.
const maxDashboardConnections = 600

// actionsURLEnv is the default of --actions-database-url, without being seen in lists of processes.
const actionsURLEnv = "TXWORK_ACTIONS_DATABASE_URL"

// dashboardOptions are the flags of serve.
type dashboardOptions struct {
	listen       string
	accountsFile string
	actionsURL   string
	hash         string
	webui.Config
}

func newServeCommand(a *app) *cobra.Command {
	var o dashboardOptions
	cmd := newCommand("serve", "Serve a dashboard of the queues to browsers", noArguments)
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", defaultDashboardListen,
		"`address` to serve at; one that is not this machine's own needs --accounts-file")
	flags.StringVar(&o.accountsFile, "accounts-file", "", "`file` with the accounts of those who may look, as JSON")
	flags.StringVar(&o.hash, "hash", "", "only print the hash of the standard input's first line for the accounts "+
		"file: that of a `password` or of a token")
	flags.BoolVar(&o.HideContent, "hide-content", false, "show payloads and headers to operators only")
	flags.BoolVar(&o.Actions, "actions", false, "let operators change rows, queues and schedules; needs --accounts-file")
	flags.StringVar(&o.actionsURL, "actions-database-url", "", "PostgreSQL `URL` or keywords for --actions; pages then "+
		"read with --database-url only (default: $"+actionsURLEnv+", or --database-url)")
	flags.DurationVar(&o.Timeout, "timeout", webui.DefaultTimeout, "how long an answer may take")
	flags.DurationVar(&o.StatementTimeout, "statement-timeout", webui.DefaultStatementTimeout,
		"how long each statement may take")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("hash") {
			return a.printHash(o.hash)
		}
		return a.serveDashboard(cmd.Context(), o)
	}
	return cmd
}

// printHash hashes what the accounts file does not have in clear.
func (a *app) printHash(what string) error {
	hash := map[string]func(string) (string, error){"password": webui.HashPassword, "token": webui.HashToken}[what]
	if hash == nil {
		return usagef("--hash is %q, it must be password or token", what)
	}
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil && line == "" {
		return usagef("--hash: the standard input has no %s", what)
	}
	text, err := hash(strings.TrimRight(line, "\r\n"))
	if err != nil {
		return usageError{err}
	}
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

// serveDashboard serves until ctx ends.
func (a *app) serveDashboard(ctx context.Context, o dashboardOptions) error {
	address, err := net.ResolveTCPAddr("tcp", o.listen)
	if err != nil {
		return usagef("--listen %s: %w", o.listen, err)
	}
	protect := func(h http.Handler) http.Handler { return h }
	if o.accountsFile != "" {
		accounts, err := openAccounts(o.accountsFile, a.logger())
		if err != nil {
			return err
		}
		o.Authenticate = accounts.authenticate
	} else {
		if o.Actions {
			return usagef("--actions needs --accounts-file: the audit records who acts, and only operators may")
		}
		if !address.IP.IsLoopback() {
			return usagef("--listen %s: others can reach this address, and everybody could look: it needs --accounts-file",
				o.listen)
		}
		o.Insecure, protect = true, ownMachine
	}
	switch {
	case o.Actions:
		o.actionsURL = cmp.Or(o.actionsURL, a.getenv(actionsURLEnv))
	case o.actionsURL != "":
		return usagef("--actions-database-url is for --actions")
	}
	return a.withDatabase(ctx, func(d *database) error {
		o.Pool, o.Schema, o.Logger = d.Pool, d.Schema, a.logger()
		if o.actionsURL != "" {
			acting, err := a.connectTo(ctx, o.actionsURL, func(*pgxpool.Config) {})
			if err != nil {
				return fmt.Errorf("--actions-database-url: %w", err)
			}
			defer acting.close()
			o.ActionPool = acting.Pool
		}
		page, err := webui.New(o.Config)
		if err != nil {
			return usageError{err}
		}
		listener, err := net.ListenTCP("tcp", address)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.stderr, "txwork: serving a dashboard on http://%s/\n", listener.Addr()); err != nil {
			listener.Close()
			return err
		}
		return httpserve.Run(ctx, a.pages(protect(page), o.Timeout), bounded(listener, maxDashboardConnections))
	})
}

// ownMachine refuses requests under other names than those of this machine. Otherwise a page of another site, whose
// name its owner lets lead here, could read the dashboard in the browser of somebody who visits that site.
func ownMachine(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		address, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if host != "localhost" && (err != nil || !address.IsLoopback()) {
			http.Error(w, "Without accounts, this dashboard is served as localhost only.", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}
