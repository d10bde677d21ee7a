//go:build !unix

package peer

import "time"

// processCPU is not known here.
func processCPU() time.Duration { return 0 }
