//go:build unix

package bench

import (
	"syscall"
	"time"
)

// clientCPU returns the CPU time of this process.
func clientCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
