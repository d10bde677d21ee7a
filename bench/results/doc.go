// Package results stores the results of a run in a file with one JSON object a line: first a [Header], and then a
// [Cell] for each measurement as it ends, so that an interrupted run can be resumed.
package results
