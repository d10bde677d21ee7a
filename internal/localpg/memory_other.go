//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package localpg

// inMemory is empty: there is no directory that every such machine has in memory.
func inMemory() []string { return nil }
