package txworktest

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// maxDeadConnections is more than the number of connections in a pool of this package.
const maxDeadConnections = 20

// persistently calls read again if the connection was lost.
func persistently(t testing.TB, read func() ([]string, error)) (texts []string) {
	t.Helper()
	var err error
	for range maxDeadConnections {
		if texts, err = read(); !isConnectionLoss(err) {
			break
		}
	}
	if err != nil {
		t.Fatalf("txworktest: %v", err)
	}
	return texts
}

// isConnectionLoss reports whether the connection was lost, as opposed to a statement that the server refused.
func isConnectionLoss(err error) bool {
	if err == nil {
		return false
	}
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(server.Code, "08") || strings.HasPrefix(server.Code, "57P") // connection, shutdown
	}
	var network net.Error
	return errors.As(err, &network) || pgconn.SafeToRetry(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.EOF) ||
		errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "conn closed")
}
