// Package keys has the conditions under which rows of a table stand in their key. The indexes of package keyed have
// them, so statements that are to use these indexes say them in the same words.
//
// Packages workqueue and keyed may import it. It has SQL only, and neither runs nor knows a statement.
package keys
