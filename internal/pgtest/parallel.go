package pgtest

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/localpg"
)

// slow tells whether this machine is so slow, or so busy, that a process may stand still for a second, see [isSlow].
var slow = isSlow()

// Lease is a short lease that a worker can keep here while other tests run: [workqueue.MinLease] unless the machine is
// slow. A test without a reaper waits for ever for a row whose lease was lost.
var Lease = onSlow(4*time.Second, time.Second)

// waiting is how many tests of a package run at once. Most of them wait for the server, a lease or a notification.
var waiting = onSlow(4, 10)

// sharedWaiting is waiting on a server of the user, which allows fewer connections than a private one.
const sharedWaiting = 4

func onSlow[T any](slowly, otherwise T) T {
	if slow {
		return slowly
	}
	return otherwise
}

// isSlow measures what a new page of memory costs, of which a new session and a fork need many: about 1 µs, but 15 µs
// in some virtual machines, and more in any machine that is busy.
func isSlow() bool {
	const pages, size, slowPage = 2048, 4096, 5 * time.Microsecond
	start := time.Now()
	memory := make([]byte, pages*size)
	for i := 0; i < len(memory); i += size {
		memory[i] = 1
	}
	return time.Since(start) > pages*slowPage
}

// gcPercent is GOGC for test binaries, whose heaps are small. With the default of 100 they need a tenth more processor
// time, which PostgreSQL lacks.
const gcPercent = 400

// The default of -parallel is the number of processors, which would be half idle. A flag on the command line is parsed
// later and overrides this.
func init() {
	if !testing.Testing() {
		return // a program that is not a test binary
	}
	testing.Init()
	parallel := max(waiting, runtime.GOMAXPROCS(0))
	if os.Getenv(localpg.DatabaseURLEnv) != "" {
		parallel = sharedWaiting
	}
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		panic(err)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
