// Package workerfile reads the YAML file of `txwork worker`, and reports every mistake in it with its line.
//
// [Read] walks the syntax tree rather than a decoded value, so that each problem has the position of the value
// concerned, and all problems are found at once. A [File] is the result, with the defaults filled in and everything
// checked that can be checked without a database.
package workerfile
