package measure

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Counters are what a server has spent so far.
type Counters struct {
	WAL    float64 // bytes of the write-ahead log
	CPU    time.Duration
	HasCPU bool
}

// A Querier is a connection or a pool.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Read reads the counters of a server. Its CPU time is known if dir is its directory, see [ServerCPU].
func Read(ctx context.Context, q Querier, dir string) (c Counters, err error) {
	c.CPU, c.HasCPU = ServerCPU(dir)
	err = q.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8").Scan(&c.WAL)
	return c, err
}

// Transactions returns how many transactions a database has had. A session adds its own when it ends, or up to ten
// seconds late.
func Transactions(ctx context.Context, q Querier, database string) (n int64, err error) {
	const query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1"
	err = q.QueryRow(ctx, query, database).Scan(&n)
	return n, err
}

// Costs are those of a number of jobs, for each of them. Their JSON names are stable.
type Costs struct {
	WALBytes  float64  `json:"wal_bytes_per_job"`               // bytes of the server's write-ahead log
	ServerCPU *float64 `json:"server_cpu_us_per_job,omitempty"` // CPU time of all processes of a private server
	ClientCPU float64  `json:"client_cpu_us_per_job"`           // CPU time of the clients: producers and workers
}

// Costs returns what a number of jobs have cost.
func (c Counters) Costs(after Counters, client time.Duration, jobs int64) Costs {
	n := float64(jobs)
	costs := Costs{WALBytes: (after.WAL - c.WAL) / n, ClientCPU: Microseconds(client) / n}
	if c.HasCPU && after.HasCPU {
		cpu := Microseconds(after.CPU-c.CPU) / n
		costs.ServerCPU = &cpu
	}
	return costs
}

// Microseconds returns a duration in microseconds.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
