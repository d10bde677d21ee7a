//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

// SupervisorPID returns the process id of the server's supervisor.
func (s *Server) SupervisorPID() int { return s.supervisor.cmd.Process.Pid }
