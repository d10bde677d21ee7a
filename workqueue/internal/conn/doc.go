// Package conn brings statements to the database and their rows back. It knows which statement may use a connection
// next, the settings under which statements mean what they say and have the plans that were measured, how arguments and
// rows travel, and how calls become one transaction in one round trip.
//
// Only package workqueue may import it, and it imports of the core only package fault. It knows no table and no row of
// one, decides about no work, and returns the errors of the driver as they are: package workqueue says to its callers
// what to do about them.
package conn
