package pgtest

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
)

// waiting is how many tests of a package run at once. Most of them wait for the server, a lease or a notification.
const waiting = 6

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
}
