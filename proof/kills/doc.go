// Package kills shows what the domains promise under kills: worker processes on one database, of which one or
// another is killed (SIGKILL) the whole time and starts again, and a reconciliation of what was asked for with
// what has happened. `go test ./proof/kills` runs small numbers; `make prove` the large ones.
package kills
