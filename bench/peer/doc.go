// Package peer is the process of a peer that is written in Go: it implements the phases of package protocol with the
// peer's own API.
package peer
