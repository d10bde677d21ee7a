// Package writers tests the SQL functions through which programs that do not use this library write rows, over all
// domains at once: that each client's text arrives as the bytes that it meant, that rows are what Go's inserts would
// have made of them, and that the rights of a producer are enough. It also tests that the calls of Go have one shape.
package writers
