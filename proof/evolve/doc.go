// Package evolve proves that programs of two releases work on one schema. It builds a program with the library as it
// is, and with a library that has migrations and a version of the core of the future. Both run under load while the
// schema goes forward and back.
package evolve
