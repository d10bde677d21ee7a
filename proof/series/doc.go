//go:build unix

// Package series runs `go run ./proof torture` at full size, run after run: seeds with all faults, a run of very many
// rows over crashes of PostgreSQL, and the builds that are broken on purpose. It writes what it finds into a page of
// the documentation.
//
//	go run ./proof series
//	go run ./proof series --seeds 2 --duration 1m --rows 0 --broken=false --page ""
//
// Each run leaves a result and a log in the directory. Started again, it goes on with the runs that have none: a result
// counts for the code and the command that it came from.
package series
