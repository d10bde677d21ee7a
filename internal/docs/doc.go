// Package docs holds the documentation to what is there: links, names of tests, commands, environment variables, Go
// code, names of Go and of SQL, figures, and promises, each with the test that shows it. `make docs-check` runs its
// tests and those of other packages that run what a page shows.
package docs
