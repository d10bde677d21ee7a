// Package lab measures peers against each other: every cell, which is a workload of one peer in one round, in a fresh
// database of one private PostgreSQL, with the peer in a process of its own.
package lab
