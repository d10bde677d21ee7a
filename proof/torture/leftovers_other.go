//go:build unix && !linux

package torture

// claimDir and clearLeftovers do nothing: only Linux has the file system that outlives a run.
func claimDir(string) (release func() error, err error) { return func() error { return nil }, nil }

func clearLeftovers(string) []string { return nil }
