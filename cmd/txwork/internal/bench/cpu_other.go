//go:build !unix

package bench

import "time"

// clientCPU is unknown on this platform.
func clientCPU() time.Duration { return 0 }
