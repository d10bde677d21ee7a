//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package localpg

// inMemory is empty: these platforms have no common directory in memory.
func inMemory() []string { return nil }
