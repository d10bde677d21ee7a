// Package docs checks the documentation against the code: links, names of tests, commands, environment variables, Go
// code, names of Go and of SQL, figures, and promises with the tests that verify them. `make docs-check` runs its
// tests, and those of other packages that run what a page shows.
package docs
