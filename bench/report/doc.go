// Package report writes what was measured into a page of the documentation: tables with medians and spread, and a
// plot for each workload.
package report
