package localpg

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

const (
	memoryDir  = "/dev/shm"
	memoryRoom = 8 << 30 // for the data of the servers of several test processes, with their logs
)

// inMemory returns a directory whose files are in memory, if there is room. Creating and dropping schemas takes half
// the CPU time there, because every table has several files.
func inMemory() []string {
	var files syscall.Statfs_t
	if syscall.Statfs(memoryDir, &files) != nil || files.Type != tmpfsMagic {
		return nil
	}
	if min(files.Bavail*uint64(files.Bsize), availableMemory()) < memoryRoom {
		return nil
	}
	return []string{memoryDir}
}

const tmpfsMagic = 0x01021994 // TMPFS_MAGIC of statfs(2)

// availableMemory is how many bytes programs can use without swapping.
func availableMemory() (n uint64) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(info)) {
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &n); err == nil {
			return n << 10
		}
	}
	return 0
}
