package workerfile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/cmd/txwork/internal/workerfile"
	"github.com/txwork/txwork/internal/httppost"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

func getenv(name string) (string, bool) {
	text, set := map[string]string{"TOKEN": "s3cret", "HOST": "example.org"}[name]
	return text, set
}

func read(text string) (*workerfile.File, error) {
	return workerfile.Read("worker.yaml", []byte(text), getenv)
}

// dedent removes the tabs of a test's own indentation, which YAML does not allow.
func dedent(text string) string {
	return strings.ReplaceAll(strings.TrimLeft(text, "\n"), "\t", "")
}

func TestAWholeFile(t *testing.T) {
	t.Parallel()
	f, err := read(dedent(`
	database: {url: "postgres://u:${TOKEN}@h/db", schema: queues, max_connections: 7}
	health: 127.0.0.1:8081
	shutdown: 12s
	reaper: false
	reap_every: 2s
	outbox:
	  concurrency: 3
	  lease: 1m
	  retry: {growth: linear, base: 2s, cap: 1h, jitter: 0}
	  retention: 2w
	  failed_retention: 90d
	  topics:
	    order.placed:
	      http:
	        url: https://${HOST}/orders
	        headers: {Authorization: "Bearer ${TOKEN}"}
	        statuses: {404: retry, 409: done}
	        no_answer: unavailable
	      max_attempts: 3
	      retry: {base: 5s}
	    "*": {exec: cat}
	inbox:
	  dedup_window: 30d
	  consumers:
	    billing: {topics: {order.placed: {exec: "cat | cat"}}}
	timers:
	  topics: {reminder: {http: "http://127.0.0.1:1/"}}
	jobs:
	  unknown: leave
	  queues:
	    default:
	    mail: {concurrency: 2, priorities: [high, normal]}
	  kinds:
	    mail:
	      exec:
	        command: [sh, -c, "exit 3"]
	        env: {SECRET: "${TOKEN}"}
	        timeout: 1m
	        kill_after: 1s
	        exit_codes: {3: permanent, 75: done, "*": permanent}
	`))
	if err != nil {
		t.Fatal(err)
	}
	if d := f.Database; d.URL != "postgres://u:s3cret@h/db" || d.Schema != "queues" || d.MaxConnections != 7 ||
		f.Health != "127.0.0.1:8081" || f.Shutdown != 12*time.Second || f.Reaper || f.ReapEvery != 2*time.Second {
		t.Errorf("got %+v", f)
	}
	o := f.Outbox
	want := workqueue.Retry{Growth: workqueue.Linear, Base: 2 * time.Second, Cap: time.Hour}
	if o.Concurrency != 3 || o.Lease != time.Minute || o.Options.Retry != want ||
		o.Options.Retention != 14*24*time.Hour || o.Options.FailedRetention != 90*24*time.Hour {
		t.Errorf("the outbox is %+v", o)
	}
	placed := o.Topics["order.placed"]
	if placed.HTTP == nil || placed.Exec != nil || placed.MaxAttempts != 3 || placed.Retry.Base != 5*time.Second ||
		placed.Retry.Growth != workqueue.Exponential {
		t.Errorf("the handler is %+v", placed)
	}
	if e := o.Topics["*"].Exec; !slices.Equal(e.Argv, []string{"sh", "-c", "cat"}) ||
		e.ExitCodes.Verdict(75) != httppost.Retry {
		t.Errorf("the command is %+v", e)
	}
	if f.Inbox.Options.DedupWindow != 30*24*time.Hour ||
		f.Inbox.Consumers["billing"].Topics["order.placed"].Exec == nil || f.Timers.Topics["reminder"].HTTP == nil {
		t.Errorf("got %+v, %+v", f.Inbox, f.Timers)
	}
	j := f.Jobs
	if len(j.Queues) != 2 || j.Queues[1].Concurrency != 2 ||
		!slices.Equal(j.Queues[1].Priorities, []jobs.Priority{jobs.High, jobs.Normal}) ||
		j.Unknown != jobs.LeaveUnknown {
		t.Errorf("the queues are %+v", j)
	}
	e := j.Kinds["mail"].Exec
	if !slices.Equal(e.Argv, []string{"sh", "-c", "exit 3"}) || !slices.Equal(e.Env, []string{"SECRET=s3cret"}) ||
		e.Timeout != time.Minute || e.KillAfter != time.Second {
		t.Errorf("the command is %+v", e)
	}
	for code, want := range map[int]httppost.Verdict{0: httppost.Done, 3: httppost.Permanent, 75: httppost.Done,
		65: httppost.Permanent, 9: httppost.Permanent} {
		if got := e.ExitCodes.Verdict(code); got != want {
			t.Errorf("exit code %d: %d, want %d", code, got, want)
		}
	}
	if serves := strings.Join(f.Serves(), ", "); serves != "outbox (2 topics), inbox of billing (1 topic), timers (1 "+
		"topic), jobs (1 kind)" {
		t.Errorf("it serves %s", serves)
	}
}

// A handler can give a row up earlier than the row's own attempts do, and not later.
func TestForHowLongRowsAreRetried(t *testing.T) {
	t.Parallel()
	f, err := read(dedent(`
	outbox:
	  retry: {growth: constant, base: 1m, jitter: 0}
	  topics:
	    few: {exec: cat, max_attempts: 3}
	    many: {exec: cat, max_attempts: 1000}
	    own: {exec: cat, retry: {growth: linear, base: 1s, jitter: 0.5}, max_attempts: 4}
	    plain: {exec: cat}
	inbox:
	  dedup_window: 1h
	  consumers: {billing: {topics: {t: {exec: cat, max_attempts: 2}}}}
	`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Retries()
	least, most := workqueue.DefaultRetry.Span(13)
	if want := []workerfile.Retrying{
		{"outbox", 130, 129 * time.Minute, 129 * time.Minute},
		{"outbox few", 3, 2 * time.Minute, 2 * time.Minute},
		{"outbox many", 130, 129 * time.Minute, 129 * time.Minute},
		{"outbox own", 4, 3 * time.Second, 6 * time.Second},
		{"inbox", 13, least, most},
		{"inbox of billing t", 2, 800 * time.Millisecond, time.Second},
	}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// A command that hangs would hold its place for ever.
func TestCommandsHaveATimeout(t *testing.T) {
	t.Parallel()
	f, err := workerfile.Read("worker.yaml", []byte(`
outbox:
  topics: {a: {exec: "true"}, b: {exec: {command: "true"}}, c: {exec: {command: "true", timeout: 3s}}}
inbox:
  dedup_window: 720h
  consumers: {billing: {topics: {a: {exec: "true"}}}}
timers:
  topics: {a: {exec: "true"}}
jobs:
  kinds: {a: {exec: "true"}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		handler *workerfile.Handler
		want    time.Duration
	}{
		"a message": {f.Outbox.Topics["a"], time.Minute}, "a mapping": {f.Outbox.Topics["b"], time.Minute},
		"its own": {f.Outbox.Topics["c"], 3 * time.Second}, "a timer": {f.Timers.Topics["a"], time.Minute},
		"the inbox": {f.Inbox.Consumers["billing"].Topics["a"], time.Minute}, "a job": {f.Jobs.Kinds["a"], time.Hour},
	} {
		if got := c.handler.Exec.Timeout; got != c.want {
			t.Errorf("%s: the timeout is %v, want %v", name, got, c.want)
		}
	}
}

// All mistakes are reported at once, each with its line and column.
func TestMistakesHaveTheirPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"all at once", `
		shutdown: 4s
		outbox:
		  concurency: 3
		  lease: 10ms
		  topics:
		    a: {exec: {command: [no-such-program]}}
		    b: {http: {url: "ftp://x"}, exec: cat}
		    c: {}
		`, `
		worker.yaml:3:3: outbox.concurency: is unknown: want one of concurrency, failed_retention, lease, retention, retry, runs_within, subscriptions, topics
		worker.yaml:4:3: outbox.lease: is 10ms, it must be between 1s and 24h0m0s
		worker.yaml:6:16: outbox.topics.a.exec.command: exec: "no-such-program": executable file not found in $PATH
		worker.yaml:7:5: outbox.topics.b: has to have either exec or http
		worker.yaml:7:9: outbox.topics.b.http: url has scheme "ftp", it must be http or https
		worker.yaml:8:5: outbox.topics.c: has to have either exec or http
		`},
		{"no file", ``, `worker.yaml:0:0: the file is empty`},
		{"no section", `reaper: true`,
			`worker.yaml:0:0: the file serves nothing: want a section outbox, inbox, timers or jobs`},
		{"no mapping", `outbox`, `worker.yaml:1:1: has to be a mapping of names to values, and is a text`},
		{"two documents", "outbox: {topics: {a: {exec: cat}}}\n---\nx: 1",
			`worker.yaml:2:1: there is a second document: want one`},
		{"twice the same", "reaper: true\nreaper: false",
			`worker.yaml:2:1: mapping key "reaper" already defined at [1:1]`},
		{"syntax", "outbox: {", `worker.yaml:1:9: could not find flow mapping end token`},
		{"a variable", `timers: {topics: {a: {http: "https://${NOWHERE}/"}}}`,
			`worker.yaml:1:23: timers.topics.a.http: refers to the environment variable NOWHERE, which is not set`},
		{"an alias", "outbox:\n  topics: &t\n    a: {exec: cat}\n", `
		worker.yaml:1:1: outbox: has no topics: say which messages are delivered
		worker.yaml:2:3: outbox.topics: has to be a mapping of names to values, and is an anchor or alias, which this file cannot have
		`},
		{"no window", `inbox: {consumers: {a: {topics: {t: {exec: cat}}}}}`,
			`worker.yaml:1:1: inbox: dedup window is not set`},
		{"a short window", "inbox:\n  dedup_window: 1m\n  consumers: {a: {topics: {t: {exec: cat}}}}",
			`worker.yaml:1:1: inbox: dedup window is 1m0s`},
		{"retry", "timers:\n  retry: {growth: fast, base: soon, jitter: 2}\n  topics: {t: {exec: cat}}", `
		worker.yaml:2:11: timers.retry.growth: is "fast": want one of constant, exponential, linear, quadratic
		worker.yaml:2:25: timers.retry.base: is "soon": want a length of time such as 90d or 36h, up to ten years
		`},
		{"a handler's retry", "timers:\n  topics:\n    t: {exec: cat, retry: {jitter: 2}}",
			`worker.yaml:3:20: timers.topics.t.retry: retry has Jitter 2, want 0, or 1e-09 to 1`},
		{"codes", `jobs: {kinds: {k: {exec: {command: cat, exit_codes: {300: done, 3: maybe}}}}}`, `
		worker.yaml:1:54: jobs.kinds.k.exec.exit_codes.300: is no exit code: want 0 to 255, or "*" for all others
		worker.yaml:1:65: jobs.kinds.k.exec.exit_codes.3: is "maybe": want one of done, permanent, retry
		`},
		{"statuses", `jobs: {kinds: {k: {http: {url: "http://h/", statuses: {100: done}}}}}`,
			`worker.yaml:1:56: jobs.kinds.k.http.statuses.100: is no status: want 200 to 599`},
		{"no answer", `jobs: {kinds: {k: {http: {url: "http://h/", no_answer: done}}}}`,
			`worker.yaml:1:45: jobs.kinds.k.http.no_answer: is "done": want one of retry, unavailable`},
		{"headers", `jobs: {kinds: {k: {http: {url: "http://h/", headers: {Host: x}}}}}`,
			`worker.yaml:1:20: jobs.kinds.k.http: header Host is the connection's own`},
		{"priorities", `jobs: {queues: {q: {priorities: [urgent]}}, kinds: {k: {exec: cat}}}`,
			`worker.yaml:1:17: jobs.queues.q: has priority "urgent": want high, normal or low`},
		{"longer than the shutdown", "shutdown: 4s\njobs: {kinds: {k: {exec: {command: cat, kill_after: 1s}}}}",
			`worker.yaml:2:41: jobs.kinds.k.exec.kill_after: is 1s, it must be between 1ms and 750ms`},
		{"a directory", `jobs: {kinds: {k: {exec: {command: cat, directory: /no/where}}}}`,
			`worker.yaml:1:41: jobs.kinds.k.exec.directory: "/no/where" is no directory`},
		{"no command", `jobs: {kinds: {k: {exec: {timeout: 1m}}}}`,
			`worker.yaml:1:20: jobs.kinds.k.exec: has no command: say what is run`},
		{"schema", `database: {schema: Bad}`, `worker.yaml:1:1: database: schema "Bad" must match`},
		{"pause", `reap_every: 13h`, `worker.yaml:1:1: reap_every: is 13h, it must be between 1s and 12h0m0s`},
		{"bool", `reaper: yes please`, `worker.yaml:1:1: reaper: has to be true or false`},
		{"a long topic", "timers: {topics: {" + strings.Repeat("t", 256) + ": {exec: cat}}}",
			`topic has 256 bytes, the limit is 255`},
	} {
		_, err := read(dedent(c.text))
		var problems *workerfile.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := strings.TrimSpace(dedent(c.want))
		got := err.Error()
		if strings.Count(want, "\n") != strings.Count(got, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, want)
			continue
		}
		gots, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
		for i := range wants {
			if !strings.Contains(gots[i], wants[i]) {
				t.Errorf("%s: got\n%s\nwant\n%s", c.name, gots[i], wants[i])
			}
		}
	}
}

// No error contains a value from the environment.
func TestErrorsTellNoSecrets(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`jobs: {kinds: {k: {http: "http://u:${TOKEN}@h/"}}}`,
		`jobs: {kinds: {k: {http: {url: "http://h/", headers: {A: "${TOKEN}\n"}}}}}`,
	} {
		if _, err := read(text); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Anything that YAML can express is either accepted or refused with a position, never with a panic.
func TestYAMLThatIsNoWorkerFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a: &x\n- *x\n", "? {}\n: 1\n", "!!int 1", "- 1\n- 2", "~", "outbox:", "outbox: []", "outbox: {topics: [a]}",
		"outbox: {topics: {a: }}",
		"outbox: {topics: {a: {exec: }}}", "outbox: {topics: {a: {exec: []}}}",
		"outbox: {topics: {a: {exec: {command: {}}}}}", "outbox: {<<: {}}",
		"jobs: {queues: {q: [1]}, kinds: {k: {http: [1]}}}", "inbox: {consumers: {: {}}}", "\x00", "\xff",
		"database: {url: [1], schema: {}}",
		"jobs: {kinds: {k: {exec: {command: [[1]]}}}}",
		"timers: {topics: {t: {http: {statuses: [1], headers: 1, forward_headers: x}}}}", "shutdown: 1y",
	} {
		f, err := read(text)
		if problems := (*workerfile.Problems)(nil); f != nil || !errors.As(err, &problems) {
			t.Errorf("%q: %+v, %v", text, f, err)
		}
	}
}

// A command and a request end at their timeout, so what runs for twice as long does not return.
func TestHowLongHandlersMayRun(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"jobs: {kinds: {a: {exec: {command: 'true', timeout: 90m}}, b: {http: 'http://h/'}}}": 3 * time.Hour,
		"jobs: {kinds: {a: {exec: {command: 'true', timeout: 1m}}}}":                          time.Hour,
		"jobs: {kinds: {a: {exec: 'true'}}}":                                                  2 * time.Hour,
		"jobs: {kinds: {a: {http: {url: 'http://h/', timeout: 50m}}}}":                        100 * time.Minute,
	} {
		f, err := read(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Jobs.Kinds.RunsWithin(); got != want || f.Jobs.RunsWithin != 0 {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	f, err := read("jobs: {runs_within: 5h, kinds: {a: {exec: 'true'}}}\n" +
		"outbox: {runs_within: 90s, topics: {a: {exec: 'true'}}}\n")
	if err != nil || f.Jobs.RunsWithin != 5*time.Hour || f.Outbox.RunsWithin != 90*time.Second {
		t.Errorf("%+v, %v", f, err)
	}
}
