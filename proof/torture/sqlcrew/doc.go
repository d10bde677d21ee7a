// Package sqlcrew is a worker and a producer of all four domains that use the SQL functions of docs/sql.md only, as a
// program in another language does. It imports nothing of the library, which a test enforces. A torture run has them
// beside Go's.
package sqlcrew
