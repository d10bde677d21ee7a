package versions

import (
	"context"
	"fmt"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
)

// An environment is one line of the table: where tests run, and which.
type environment struct {
	name  string
	suite suite

	// prepare returns what the tests' environment has beside this process's, and what ends it. An error that is
	// unavailable skips the line.
	prepare func(context.Context) (env []string, end func(), err error)
}

// An unavailable thing cannot be had on this machine, which is no fault of the code under test.
type unavailable struct{ error }

// suite says which tests run: of the packages whose tests depend on one of ours, those that match a pattern.
type suite struct {
	dependsOn string // import path; empty: all packages
	pattern   string // of -test.run
	toolchain string // of Go; empty: the one that runs this
}

var (
	everything  = suite{dependsOn: module + "/internal/localpg", pattern: "."}
	conformance = suite{dependsOn: module + "/internal/conformance", pattern: "Conform|Pooler"}
)

const module = "github.com/txwork/txwork"

// poolable are the modes that work through a pooler in transaction mode before PgBouncer 1.21. The others prepare
// statements in one transaction and use them in the next, which may be another session's.
var poolable = []string{"exec", "simple_protocol"}

var modes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

// toolchains are the releases of Go that its makers support: go.mod asks for the older one.
var toolchains = []string{"go1.26.8", "go1.27.4"}

func matrix(short bool) (all []environment) {
	full := everything
	if short {
		full = conformance
	}
	for _, r := range releases {
		all = append(all, environment{name: "PostgreSQL " + r.version, suite: full, prepare: r.prepare})
	}
	for _, mode := range modes {
		all = append(all, environment{name: "pgx " + mode, suite: conformance, prepare: sending(mode)})
	}
	for _, mode := range poolable {
		all = append(all, environment{name: "PgBouncer, pgx " + mode, suite: conformance, prepare: pooled(mode)})
	}
	for _, version := range toolchains {
		s := full
		s.toolchain = version
		if !short {
			s.dependsOn = ""
		}
		all = append(all, environment{name: "Go " + version[len("go"):], suite: s, prepare: as(version)})
	}
	return all
}

func nothing() {}

func sending(mode string) func(context.Context) ([]string, func(), error) {
	return func(context.Context) ([]string, func(), error) {
		return []string{pgtest.ExecModeEnv + "=" + mode}, nothing, nil
	}
}

// as has the tests run by a toolchain, which the go command fetches. It is asked for its version first, so that one
// that cannot be had is told from code that does not compile with it.
func as(toolchain string) func(context.Context) ([]string, func(), error) {
	return func(ctx context.Context) ([]string, func(), error) {
		env := []string{"GOTOOLCHAIN=" + toolchain}
		if out, err := goCommand(ctx, env, "version").CombinedOutput(); err != nil {
			return nil, nil, unavailable{fmt.Errorf("%w: %s", err, out)}
		}
		return env, nothing, nil
	}
}

// prepare has private servers run a release of PostgreSQL, whatever server this process may have been given.
func (r release) prepare(ctx context.Context) ([]string, func(), error) {
	bin, err := r.install(ctx)
	if err != nil {
		return nil, nil, err
	}
	env := []string{localpg.BinDirEnv + "=" + bin, localpg.DatabaseURLEnv + "="}
	return env, nothing, nil
}
