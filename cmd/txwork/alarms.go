package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

const (
	// alarmsEnv begins the names of the environment variables that stand for flags of alarms serve.
	alarmsEnv = "TXWORK_ALARMS_"

	// defaultAlarmsListen accepts connections from this machine only: tokens should not travel a network in clear text.
	defaultAlarmsListen = "127.0.0.1:8080"
)

func newAlarmsCommand(a *app) *cobra.Command {
	return newGroup("alarms", "Wake agents at a moment, or whenever a cron rule says so", newAlarmsServeCommand(a))
}

// alarmsOptions are the flags of alarms serve.
type alarmsOptions struct {
	listen       string
	wakeURL      string
	tokensFile   string
	secretFile   string
	tokenFile    string // authenticates wakes
	allowPrivate bool
	noReaper     bool
	json         bool
	timeout      time.Duration
	maxFailures  int
	maxBody      int64
	rate         float64
	burst        int
	alarms.DispatcherOptions
}

func newAlarmsServeCommand(a *app) *cobra.Command {
	var o alarmsOptions
	cmd := &cobra.Command{
		Use:   "serve --wake-url URL --tokens-file FILE --secret-file FILE",
		Short: "Serve the alarms API and deliver alarms that are due",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.flagsFromEnv(cmd.LocalNonPersistentFlags()); err != nil {
				return err
			}
			s, err := newAlarmsService(a, o)
			if err != nil {
				return err
			}
			return a.withDatabase(cmd.Context(), func(d *database) error { return explain(s.run(cmd.Context(), d)) })
		},
	}
	o.define(cmd.Flags())
	return cmd
}

func (o *alarmsOptions) define(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "listen", defaultAlarmsListen, "address to serve on; port 0 picks a free port")
	flags.StringVar(&o.wakeURL, "wake-url", "", "http or https `URL` that wakes are posted to")
	flags.StringVar(&o.tokensFile, "tokens-file", "", "`file` with the API's bearer tokens and their owners")
	flags.StringVar(&o.secretFile, "secret-file", "", "`file` with the secrets that sign wakes")
	flags.StringVar(&o.tokenFile, "wake-token-file", "", "`file` with the bearer token to send with wakes")
	flags.BoolVar(&o.allowPrivate, "allow-private", false,
		"allow wakes to addresses that are not public, such as this machine's own")
	flags.DurationVar(&o.PollInterval, "tick", alarms.DefaultPollInterval, "longest time between two polls for due alarms")
	flags.DurationVar(&o.Lease, "lease", alarms.DefaultLease,
		"lease of an alarm; after a crash, its alarms are redelivered when it has expired")
	flags.IntVar(&o.ClaimLimit, "batch", alarms.DefaultClaimLimit,
		"alarms of the first claim; later ones adapt to the load")
	flags.IntVar(&o.Concurrency, "concurrency", alarms.DefaultConcurrency, "deliveries at once")
	flags.IntVar(&o.maxFailures, "max-failures", alarms.DefaultMaxFailures,
		"deliveries of an alarm before it fails, unless the alarm sets its own")
	flags.DurationVar(&o.timeout, "wake-timeout", alarms.DefaultWakeTimeout, "how long one delivery may take")
	flags.Int64Var(&o.maxBody, "max-body", alarms.DefaultMaxBody, "largest body of a request, in bytes")
	flags.Float64Var(&o.rate, "rate", alarms.DefaultRate,
		"requests per second of one owner, on average; negative: no limit")
	flags.IntVar(&o.burst, "burst", alarms.DefaultBurst, "concurrent requests of one owner")
	flags.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", workqueue.DefaultShutdownTimeout,
		"how long deliveries may continue after a signal")
	flags.BoolVar(&o.noReaper, "no-reaper", false, "leave expired leases to a reaper elsewhere")
	jsonVar(flags, &o.json, "tell where the API is, and how many connections to the database there may be, as one JSON "+
		"object on one line", servedAlarms{})
}

// flagsFromEnv sets each flag that the command line leaves out from its environment variable. An empty variable counts
// as unset.
func (a *app) flagsFromEnv(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := envName(f.Name)
		text := a.getenv(name)
		if f.Changed || text == "" || f.Name == "help" || err != nil {
			return
		}
		if setErr := flags.Set(f.Name, text); setErr != nil {
			err = usageError{explainFlag(name, setErr)}
		}
	})
	return err
}

func envName(flag string) string {
	return alarmsEnv + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// content returns the content of a file or, if no file is named, the value of the environment variable that stands for
// it.
func (a *app) content(flag, file, env string) (string, error) {
	if file == "" {
		return a.getenv(alarmsEnv + env), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", usagef("%s: %w", flag, err)
	}
	return string(text), nil
}

func (o *alarmsOptions) validate() error {
	switch {
	case o.wakeURL == "":
		return usagef("say where wakes go: --wake-url URL")
	case o.PollInterval <= 0:
		return usagef("--tick is %v, it must be positive", o.PollInterval)
	case o.Lease < workqueue.MinLease || o.Lease > workqueue.MaxLease:
		return usagef("--lease is %v, it must be between %v and %v", o.Lease, workqueue.MinLease, workqueue.MaxLease)
	case o.ClaimLimit < 1 || o.ClaimLimit > workqueue.MaxBatch:
		return usagef("--batch is %d, it must be between 1 and %d", o.ClaimLimit, workqueue.MaxBatch)
	case o.Concurrency < 1:
		return usagef("--concurrency is %d, it must be at least 1", o.Concurrency)
	case o.maxFailures < 1 || o.maxFailures > alarms.MaxMaxFailures:
		return usagef("--max-failures is %d, it must be between 1 and %d", o.maxFailures, alarms.MaxMaxFailures)
	case o.timeout <= 0:
		return usagef("--wake-timeout is %v, it must be positive", o.timeout)
	case o.ShutdownTimeout <= 0:
		return usagef("--shutdown-timeout is %v, it must be positive", o.ShutdownTimeout)
	case o.maxBody < 1 || o.burst < 1 || o.rate == 0:
		return usagef("--max-body, --burst and --rate cannot be 0")
	}
	return nil
}

// alarmsTokens requires tokens: without them the API would serve nobody, or everybody.
func (a *app) alarmsTokens(o alarmsOptions) (*alarms.Tokens, error) {
	text, err := a.content("--tokens-file", o.tokensFile, "TOKENS")
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(text) == "" {
		return nil, usagef("there are no tokens, so nobody could use the API: pass --tokens-file, or set %sTOKENS",
			alarmsEnv)
	}
	tokens, err := alarms.ParseTokens([]byte(text))
	if err != nil {
		return nil, usageError{err}
	}
	return tokens, nil
}

func (a *app) alarmsWaker(o alarmsOptions) (*alarms.HTTPWaker, error) {
	secrets, err := a.content("--secret-file", o.secretFile, "SECRET")
	if err != nil {
		return nil, err
	}
	token, err := a.content("--wake-token-file", o.tokenFile, "WAKE_TOKEN")
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(secrets+token) == "" {
		return nil, usagef("nothing would prove to the receiver that wakes are yours: pass --secret-file or "+
			"--wake-token-file, or set %sSECRET or %[1]sWAKE_TOKEN", alarmsEnv)
	}
	waker, err := alarms.NewHTTPWaker(alarms.HTTPWakerOptions{
		URL:          o.wakeURL,
		Secrets:      strings.Fields(secrets),
		Token:        strings.TrimSpace(token),
		Timeout:      o.timeout,
		AllowPrivate: o.allowPrivate,
	})
	if err != nil {
		return nil, usageError{fmt.Errorf("the wakes: %w", err)}
	}
	return waker, nil
}
