//go:build !unix

package peer

import "time"

// processCPU returns 0, because the processor time is not known on this platform.
func processCPU() time.Duration { return 0 }
