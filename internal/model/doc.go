// Package model has no code of its own. Its tests run random operations, each through a random way in, on a table and
// on a model of it in memory, and compare the two after every step. The test controls time: time passes in whole hours,
// by moving every time in the table back, and the time that really passes is far less than an hour.
//
//	go test ./internal/model                                          # a few short games
//	go test ./internal/model -rapid.checks 1000 -rapid.steps 100      # many long ones
//	go test ./internal/model -rapid.failfile testdata/rapid/…         # the one that failed
package model
