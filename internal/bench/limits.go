package bench

import "time"

// Bounds of what workloads are given.
const (
	MaxJobs        = 100_000_000
	MaxPayload     = 1 << 20 // bytes
	MaxWorkers     = 64      // of all processes
	MaxConcurrency = 10_000  // of a worker
	MaxConnections = 100
	MaxRate        = 1_000_000
	MaxSchedules   = 10_000
	MaxDuration    = 24 * time.Hour
	MaxBatchBytes  = 64 << 20 // payloads of one transaction, which one statement carries
)
