package pgtest

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

// waiting is how many tests of a package run at once. Most of them wait for the server, a lease or a notification.
const waiting = 10

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
	if err := flag.Set("test.parallel", strconv.Itoa(max(waiting, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
