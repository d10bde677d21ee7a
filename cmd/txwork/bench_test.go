package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
)

// A benchResult is the part of the JSON that scripts read.
type benchResult struct {
	Workload      string         `json:"workload"`
	Interrupted   bool           `json:"interrupted"`
	Jobs          int64          `json:"jobs"`
	Lost          int64          `json:"lost"`
	Seconds       float64        `json:"seconds"`
	JobsPerSecond float64        `json:"jobs_per_second"`
	PerSecond     []int64        `json:"per_second"`
	Early         *int64         `json:"early"`
	Settings      map[string]any `json:"settings"`
}

// The fields of every result, of results with latencies, and of results with claims.
var (
	benchAlways = []string{"workload", "interrupted", "jobs", "lost", "seconds", "jobs_per_second",
		"wal_bytes_per_job", "client_cpu_us_per_job", "client_memory_bytes", "dead_tuples", "commits_per_job",
		"parameters", "settings"}
	benchLatencies = []string{"p50_ms", "p95_ms", "p99_ms", "max_ms"}
	benchClaims    = []string{"hot_share"}
	benchSettings  = []string{"server_version", "fsync", "synchronous_commit", "private_server", "cores"}
)

func TestBench(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args   string
		jobs   int64
		fields [][]string
	}{
		{"drain --jobs 300 --hold-snapshot", 300, [][]string{benchClaims, benchLatencies}},
		{"enqueue --jobs 100 --batch 7 --connections 3", 100, [][]string{benchLatencies}},
		{"latency --count 3", 3, [][]string{benchLatencies, benchClaims}},
		{"steady --rate 50 --duration 1s", 50, [][]string{benchLatencies, benchClaims}},
		{"timers --due 40 --within 1s", 40, [][]string{benchLatencies, benchClaims, {"early"}}},
		{"drain --jobs 300", 300, [][]string{benchClaims, {"per_second"}}},
		{"drain --jobs 200 --fail 10% --workers 2 --concurrency 90 --payload-bytes 0", 200, [][]string{benchClaims}},
		{"drain --jobs 50 --fail 0.5 --payload-bytes 999", 50, [][]string{benchClaims}},
	}[:pgtest.Size(5, 8)] { // each workload once, or all
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			r := runBench(t, append(strings.Fields(test.args), "--json")...).ok()
			r.says("PostgreSQL", "jobs/s", "lost")
			object := decode[map[string]json.RawMessage](r)
			for _, field := range append(slices.Concat(test.fields...), benchAlways...) {
				if object[field] == nil {
					t.Errorf("there is no %q in %s", field, r.stdout)
				}
			}
			if object["server_cpu_us_per_job"] != nil {
				t.Error("the CPU time of a server that is not private is reported")
			}
			checkBench(t, decode[benchResult](r), strings.Fields(test.args)[0], test.jobs)
		})
	}
}

func checkBench(t *testing.T, got benchResult, workload string, jobs int64) {
	t.Helper()
	if got.Workload != workload || got.Interrupted || got.Jobs != jobs || got.Lost != 0 ||
		got.Early != nil && *got.Early != 0 {
		t.Errorf("got %+v, want %d jobs of %s", got, jobs, workload)
	}
	if got.Seconds <= 0 || got.JobsPerSecond <= 0 {
		t.Errorf("%d jobs in %v s are %v/s", got.Jobs, got.Seconds, got.JobsPerSecond)
	}
	var sum int64
	for _, n := range got.PerSecond {
		sum += n
	}
	if got.PerSecond != nil && sum != jobs {
		t.Errorf("the seconds %v have %d jobs, want %d", got.PerSecond, sum, jobs)
	}
	for _, name := range benchSettings {
		if got.Settings[name] == nil {
			t.Errorf("there is no setting %s in %v", name, got.Settings)
		}
	}
}

// runBench runs a bench on the server of the tests.
func runBench(t *testing.T, args ...string) result {
	t.Helper()
	args = append([]string{"bench"}, args...)
	return execute(t, t.Context(), strings.NewReader(""), map[string]string{databaseURLEnv: pgtest.URL(t)}, args...)
}

func TestBenchForPeople(t *testing.T) {
	t.Parallel()
	r := runBench(t, "drain", "--jobs", "20").ok()
	r.prints("20 jobs in", "jobs/s", "write-ahead log", "lost", "PostgreSQL")
	if r.stderr != "" {
		t.Errorf("standard error is %q, want nothing", r.stderr)
	}
}

func TestBenchWrongUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"drain --processes -1":              "--processes is -1",
		"drain --processes 9 --workers 8":   "--processes times --workers is 72, it must be at most 64",
		"enqueue --payload-bytes 1000000":   "--batch times --payload-bytes is 1000000000, it must be at most 67108864",
		"steady --rate 1e6 --duration 24h":  "--rate times --duration is 86400000000",
		"drain --jobs 0":                    "--jobs is 0, it must be between 1 and",
		"drain --payload-bytes -1":          "--payload-bytes is -1",
		"drain --workers 65":                "--workers is 65, it must be between 1 and 64",
		"drain --fail 110%":                 "want a share such as 10%",
		"drain --fail many":                 "want a share such as 10%",
		"drain --fail NaN":                  "want a share such as 10%",
		"drain more":                        "takes flags only",
		"enqueue --batch 0":                 "--batch is 0",
		"enqueue --connections 101":         "--connections is 101",
		"latency --count 0":                 "--count is 0",
		"steady --rate 0":                   "--rate is 0",
		"steady --rate NaN":                 "--rate is NaN",
		"steady --duration 1":               "duration",
		"steady --duration 1ms":             "--duration is 1ms, it must be between 1s and 24h0m0s",
		"timers --due 0":                    "--due is 0",
		"timers --within 25h":               "--within is 25h0m0s",
		"drain --schema x":                  "omit --schema",
		"drian":                             "did you mean drain?",
		"drain --database-url http://x:y:z": "the database URL is wrong",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			r := runBench(t, strings.Fields(args)...).exits(exitUsage).says(want)
			if r.stdout != "" {
				t.Errorf("standard output is %q, want nothing", r.stdout)
			}
		})
	}
}
