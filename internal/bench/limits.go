package bench

import "time"

// Bounds of what workloads are given.
const (
	MaxJobs        = 100_000_000
	MaxPayload     = 1 << 20 // bytes
	MaxWorkers     = 64
	MaxConcurrency = 10_000 // of a worker
	MaxConnections = 100
	MaxRate        = 1_000_000
	MaxSchedules   = 10_000
	MaxDuration    = 24 * time.Hour
)
