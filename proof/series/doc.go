//go:build unix

// Package series runs `go run ./proof torture` at full size, run after run: seeds with all faults, a run of very many
// rows with crashes of PostgreSQL, and the deliberately broken builds. It writes the results into a page of the
// documentation.
//
//	go run ./proof series
//	go run ./proof series --seeds 2 --duration 1m --rows 0 --broken=false --page ""
//
// Each run leaves a result and a log in the directory. When the series is started again, it continues with the runs
// without a result. A result counts only for the code and the command that it came from.
package series
