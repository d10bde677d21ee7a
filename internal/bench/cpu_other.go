//go:build !unix

package bench

import "time"

// clientCPU is not known here.
func clientCPU() time.Duration { return 0 }
