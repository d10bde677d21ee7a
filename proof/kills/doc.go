// Package kills tests what the domains promise under kills. Worker processes share one database, a random one is killed
// (SIGKILL) again and again and restarted, and in the end what was requested is reconciled with what happened. `go test
// ./proof/kills` runs small numbers; `make prove` the large ones.
//
// The directory programs has workers and a producer in Python, JavaScript and bash. Their authors had docs/sql.md and
// nothing else of txwork, so what is wrong with them is wrong with that page first: mend both. They are killed beside
// Go's workers, and lose their connections. Without their drivers (.ci/drivers) that test is skipped.
package kills
