//go:build unix

package measure

import (
	"syscall"
	"time"
)

// ClientCPU returns the CPU time of this process.
func ClientCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
