// Package kills tests what the domains promise under kills. Worker processes share one database, a random one is killed
// (SIGKILL) again and again and restarted, and in the end what was requested is reconciled with what happened. `go test
// ./proof/kills` runs small numbers; `make prove` the large ones.
package kills
