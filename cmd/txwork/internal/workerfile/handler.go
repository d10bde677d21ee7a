package workerfile

import (
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/txwork/txwork/internal/httppost"
	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// Others is the name of the handler for all topics or kinds that have none.
const Others = "*"

// Handlers are the handlers of a section, by topic or kind.
type Handlers map[string]*Handler

// A Handler says what is done with a row: a command or a request.
type Handler struct {
	Exec        *Exec
	HTTP        *httppost.Poster
	Retry       workqueue.Retry // zero: that of the table or the row
	MaxAttempts int             // 0: that of the row
}

// RunsWithin is how long a handler of a section may run before it is reported as one that does not return, if the
// section does not say: [workqueue.RunsWithin] of the longest timeout, which ends a command and a request.
func (all Handlers) RunsWithin() time.Duration {
	within := workqueue.DefaultRunsWithin
	for _, h := range all {
		if h.Exec != nil {
			within = max(within, workqueue.RunsWithin(h.Exec.Timeout))
		}
		if h.HTTP != nil {
			within = max(within, workqueue.RunsWithin(h.HTTP.Timeout()))
		}
	}
	return within
}

// endsWithin is how long after its timeout a handler has returned.
const endsWithin = 5 * time.Second

// Timeout is how long no handler of a section takes: its commands and requests are ended before. It is as long as can
// be if one of them has no timeout.
func (all Handlers) Timeout() (longest time.Duration) {
	for _, h := range all {
		if h.Exec != nil && h.Exec.Timeout == 0 {
			return math.MaxInt64
		}
		if h.Exec != nil {
			longest = max(longest, h.Exec.Timeout+h.Exec.KillAfter)
		}
		if h.HTTP != nil {
			longest = max(longest, h.HTTP.Timeout())
		}
	}
	return longest + endsWithin
}

// Default timeouts of commands. Without one, a command that hangs would hold its place for ever. Jobs may take long;
// messages and timers are usually passed on.
const (
	DefaultTimeout    = time.Minute
	DefaultJobTimeout = time.Hour
)

// An Exec is a command.
type Exec struct {
	Argv      []string
	Directory string
	Env       []string
	Timeout   time.Duration // 0: none
	KillAfter time.Duration
	ExitCodes ExitCodes
}

// ExitCodes say what exit codes mean.
type ExitCodes struct {
	Verdicts map[int]httppost.Verdict
	Others   httppost.Verdict
}

// Exit codes with a special meaning, as in sysexits.h.
const (
	ExitDataError = 65
	ExitTempFail  = 75
)

// DefaultExitCodes are used for commands without exit codes in the file.
func DefaultExitCodes() ExitCodes {
	return ExitCodes{
		Verdicts: map[int]httppost.Verdict{0: httppost.Done, ExitDataError: httppost.Permanent,
			ExitTempFail: httppost.Retry},
		Others: httppost.Retry,
	}
}

// Verdict is what an exit code means.
func (c ExitCodes) Verdict(code int) httppost.Verdict {
	if v, known := c.Verdicts[code]; known {
		return v
	}
	return c.Others
}

// Shell is the command line that runs a text in a shell.
func Shell(command string) []string { return []string{"sh", "-c", command} }

var verdicts = map[string]httppost.Verdict{"done": httppost.Done, "retry": httppost.Retry,
	"permanent": httppost.Permanent, "unavailable": httppost.Unavailable}

// noAnswers are what it can mean that there is no answer.
var noAnswers = map[string]httppost.Verdict{"retry": httppost.Retry, "unavailable": httppost.Unavailable}

func (s *sections) name(v value, field, name string, limit int) {
	s.refuse(v, input.Name(field, name, limit))
}

// handlers reads handlers by topic or kind. Their commands have a timeout unless they set one.
func (s *sections) handlers(to *Handlers, what string, limit int, timeout time.Duration) func(value) {
	return func(v value) {
		all := Handlers{}
		s.each(v, func(name string, v value) {
			s.name(v, what, name, limit)
			all[name] = s.handler(v, timeout)
		})
		if _, mapping := v.node.(ast.MapNode); mapping {
			*to = all
		}
	}
}

// maxAttempts is larger than any sensible value.
const maxAttempts = 1_000_000

func (s *sections) handler(v value, timeout time.Duration) *Handler {
	h := new(Handler)
	given := 0
	s.mapping(v, fields{
		"exec":         func(v value) { given++; h.Exec = s.exec(v, timeout) },
		"http":         func(v value) { given++; h.HTTP = s.http(v) },
		"retry":        s.retry(&h.Retry),
		"max_attempts": s.integer(&h.MaxAttempts, 1, maxAttempts),
	})
	if _, mapping := v.node.(ast.MapNode); mapping && given != 1 {
		s.report(v, "has to have either exec or http")
	}
	return h
}

// defaultKillAfter is how long a command that was asked to end may take before it is killed.
const defaultKillAfter = 2 * time.Second

// abortGrace is how long the library waits for handlers after the shutdown timeout. A command has to be dead by then.
func (s *sections) abortGrace() time.Duration { return max(s.shutdown/4, time.Second) }

func (s *sections) exec(v value, timeout time.Duration) *Exec {
	e := &Exec{Timeout: timeout, KillAfter: min(defaultKillAfter, s.abortGrace()/2),
		ExitCodes: DefaultExitCodes()}
	if _, mapping := v.node.(ast.MapNode); !mapping { // only the command
		s.programs(v, e, s.command(v, e))
		return e
	}
	var command value
	var text string
	s.mapping(v, fields{
		"command":   func(v value) { command, text = v, s.command(v, e) },
		"directory": func(v value) { s.directory(v, e) },
		"env": func(v value) {
			s.each(v, func(name string, v value) {
				var text string
				s.expanded(&text)(v)
				e.Env = append(e.Env, name+"="+text)
			})
		},
		"timeout":    s.duration(&e.Timeout, time.Millisecond, input.MaxDuration),
		"kill_after": s.duration(&e.KillAfter, time.Millisecond, s.abortGrace()*3/4),
		"exit_codes": func(v value) { s.exitCodes(v, &e.ExitCodes) },
	})
	s.need(v, e.Argv != nil, "command", "say what is run")
	s.programs(command, e, text) // which depends on the other fields
	return e
}

// command reads a text for sh, which it returns, or a list of a program and its arguments.
func (s *sections) command(v value, e *Exec) (text string) {
	if _, list := v.node.(*ast.SequenceNode); !list {
		s.text(&text)(v)
		e.Argv = Shell(text)
		return text
	}
	s.texts(&e.Argv)(v)
	if len(e.Argv) == 0 {
		s.report(v, "is empty")
	}
	return ""
}

func (s *sections) directory(v value, e *Exec) {
	s.text(&e.Directory)(v)
	if info, err := os.Stat(e.Directory); err != nil || !info.IsDir() {
		s.report(v, "%q is no directory", e.Directory)
		e.Directory = ""
	}
}

func (s *sections) exitCodes(v value, to *ExitCodes) {
	s.each(v, func(name string, v value) {
		var verdict httppost.Verdict
		choice(s.reader, &verdict, verdicts)(v)
		code, err := strconv.Atoi(name)
		switch {
		case name == Others:
			to.Others = verdict
		case err != nil || code < 0 || code > 255:
			s.report(v, "is no exit code: want 0 to 255, or %q for all others", Others)
		default:
			to.Verdicts[code] = verdict
		}
	})
}

func (s *sections) http(v value) *httppost.Poster {
	o := httppost.PosterOptions{Header: http.Header{}, Statuses: map[int]httppost.Verdict{}}
	if _, mapping := v.node.(ast.MapNode); !mapping { // only the URL
		s.expanded(&o.URL)(v)
		return s.poster(v, o)
	}
	s.mapping(v, fields{
		"url": s.expanded(&o.URL),
		"headers": func(v value) {
			s.each(v, func(name string, v value) {
				var text string
				s.expanded(&text)(v)
				o.Header.Set(name, text)
			})
		},
		"content_type":    s.text(&o.ContentType),
		"key_header":      s.text(&o.KeyHeader),
		"forward_headers": s.texts(&o.ForwardHeaders),
		"timeout":         s.duration(&o.Timeout, time.Millisecond, time.Hour),
		"public_only":     s.boolean(&o.PublicOnly),
		"no_answer":       choice(s.reader, &o.NoAnswer, noAnswers),
		"statuses": func(v value) {
			s.each(v, func(name string, v value) {
				var verdict httppost.Verdict
				choice(s.reader, &verdict, verdicts)(v)
				status, err := strconv.Atoi(name)
				if err != nil || status < 200 || status > 599 {
					s.report(v, "is no status: want 200 to 599")
				} else if verdict != 0 {
					o.Statuses[status] = verdict
				}
			})
		},
	})
	return s.poster(v, o)
}

func (s *sections) poster(v value, o httppost.PosterOptions) *httppost.Poster {
	p, err := httppost.NewPoster(o)
	s.refuse(v, err)
	return p
}
