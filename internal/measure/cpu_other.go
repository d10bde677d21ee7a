//go:build !unix

package measure

import "time"

// ClientCPU is unknown on this platform.
func ClientCPU() time.Duration { return 0 }
