package bench

import "time"

// Bounds on the parameters of workloads.
const (
	MaxJobs        = 100_000_000
	MaxPayload     = 1 << 20 // bytes
	MaxWorkers     = 64      // in all processes together
	MaxConcurrency = 10_000  // of one worker
	MaxConnections = 100
	MaxRate        = 1_000_000
	MaxDuration    = 24 * time.Hour
	MaxBatchBytes  = 64 << 20 // payloads of one transaction, which a single statement carries
)
