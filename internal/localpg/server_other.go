//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package localpg

import (
	"context"
	"errors"
	"runtime"
)

var errUnsupported = errors.New("localpg: a private PostgreSQL cannot be started on " + runtime.GOOS +
	"; set " + DatabaseURLEnv + " to the URL of a PostgreSQL server")

// Server is a private PostgreSQL server.
type Server struct{}

// Start returns an error that says what to do instead.
func Start(context.Context, Options) (*Server, error) { return nil, errUnsupported }

// URL returns the empty string.
func (s *Server) URL() string { return "" }

// Dir returns the empty string.
func (s *Server) Dir() string { return "" }

// Crash returns an error.
func (s *Server) Crash() error { return errUnsupported }

// Restart returns an error.
func (s *Server) Restart(context.Context) error { return errUnsupported }

// Stop does nothing.
func (s *Server) Stop() error { return nil }
