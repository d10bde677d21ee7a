// Package results keeps what a run has measured: a file of one JSON object a line, first a [Header] and then a [Cell]
// for each measurement as it ends, so that a run that was interrupted can go on.
package results
