// Package measure is what every benchmark measures with: the server, what it and its clients have cost, and how several
// figures become one. The command line's bench, the comparison with peers and commits, and the benchmarks of packages
// use it, so that their figures mean the same.
package measure
