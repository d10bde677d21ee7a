// Package protocol defines how the runner and the process of a peer communicate.
//
// The runner starts a peer's executable once for each phase, with the phase as its only argument and a [Config] in the
// environment variable [ConfigEnv]. The peer prints one [Event] a line on standard output, logs to standard error
// and ends with 0. It stops when its standard input is closed, or on SIGTERM. See bench/README.md for the phases.
package protocol
