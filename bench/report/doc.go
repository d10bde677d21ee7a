// Package report writes measurements into a page of the documentation: tables with medians and spread, and a plot for
// each workload.
package report
