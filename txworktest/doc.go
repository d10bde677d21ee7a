// Package txworktest tests applications that use txwork, on a real PostgreSQL.
package txworktest
