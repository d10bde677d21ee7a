// Package proof shows what the domains promise under kills: worker processes on one database, of which one or
// another is killed (SIGKILL) the whole time and starts again, and a reconciliation of what was asked for with
// what has happened. `go test ./internal/proof` runs small numbers; `make prove` the large ones.
package proof
