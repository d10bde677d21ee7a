// Package model has no code of its own. Its tests play random operations, by random ways in, on a table and on a
// model of it in memory, and compare the two after every step. Time is the test's: it passes in whole hours, by
// moving every time in the table back, and what really passes meanwhile is far less than one.
//
//	go test ./internal/model                                          # a few short games
//	go test ./internal/model -rapid.checks 1000 -rapid.steps 100      # many long ones
//	go test ./internal/model -rapid.failfile testdata/rapid/…         # the one that failed
package model
