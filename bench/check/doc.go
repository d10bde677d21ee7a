// Package check compares the working tree with an earlier commit: it builds txwork as a peer from both, measures them
// by turns (A B B A) as package lab measures peers, and prints medians, spreads and ratios. `make bench-check` runs it.
//
// It does not judge times: people do that. It fails only if the working tree lost jobs, a run of it failed, or one of
// the two cannot be built. If it is interrupted, it prints what was measured until then.
package check
