//go:build race

package costs_test

// raceEnabled says that the race detector is on, which slows the client down and allocates memory itself.
const raceEnabled = true
