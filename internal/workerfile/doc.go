// Package workerfile reads the file of `txwork worker`: YAML, of which every mistake is reported with its line.
//
// [Read] walks the syntax tree and not a decoded value, so that a problem has the place of the very value it is about,
// and all problems are found in one reading. [File] is what it says, with the defaults filled in and everything checked
// that can be checked without a database.
package workerfile
