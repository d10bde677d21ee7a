// Package clients runs the programs of docs/clients with their drivers, as a reader would who copies them: a page's
// blocks with a file name are written to a directory, the program enqueue runs to its end, and the others run until
// every row has ended. They do so once more while a worker is killed that has rows, and while connections end. A driver
// that the machine lacks is a skip that says how to install it; `.ci/drivers` installs all that can be had.
package clients
