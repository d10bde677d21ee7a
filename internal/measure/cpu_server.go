package measure

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc. It is the same on every Linux platform that Go supports.
const tick = 10 * time.Millisecond

// ServerCPU returns the CPU time of all processes of a private server: the postmaster, its children, and children that
// have ended and were reaped by the postmaster. It is unknown without /proc, and of a server without a directory here.
func ServerCPU(dir string) (time.Duration, bool) {
	if dir == "" {
		return 0, false
	}
	file, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	line, _, _ := strings.Cut(string(file), "\n")
	postmaster, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0, false
	}
	for {
		before, ok := readStat(strconv.Itoa(postmaster))
		if !ok {
			return 0, false
		}
		ticks := before.self + before.reaped + childrenTicks(postmaster)
		if after, ok := readStat(strconv.Itoa(postmaster)); ok && after.reaped == before.reaped {
			return time.Duration(ticks) * tick, true
		} // otherwise a child was reaped meanwhile, which may be missing or counted twice
	}
}

// ProcessCPU returns the CPU time of another process. It is unknown without /proc.
func ProcessCPU(pid int) (time.Duration, bool) {
	s, ok := readStat(strconv.Itoa(pid))
	return time.Duration(s.self) * tick, ok
}

func childrenTicks(postmaster int) (ticks int64) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if s, ok := readStat(filepath.Base(filepath.Dir(path))); ok && s.parent == postmaster {
			ticks += s.self
		}
	}
	return ticks
}

// A processStat is what /proc says of a process, in ticks.
type processStat struct {
	parent       int
	self, reaped int64
}

func readStat(pid string) (s processStat, ok bool) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return s, false
	}
	return parseStat(text)
}

// parseStat skips the program's name, which may contain any character. The fields after it are counted from the third.
func parseStat(text []byte) (s processStat, ok bool) {
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return s, false
	}
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(fields[field-3], 10, 64)
		return n
	}
	return processStat{
		parent: int(number(4)),
		self:   number(14) + number(15),
		reaped: number(16) + number(17),
	}, true
}
