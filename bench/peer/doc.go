// Package peer is the process of a peer that is written in Go: it does the phases of package protocol with what the
// peer's own API does.
package peer
