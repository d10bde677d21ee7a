package txworktest

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// maxDeadConnections is more than a pool of the kit has.
const maxDeadConnections = 20

// persistently reads again where the connection was lost.
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

// isConnectionLoss tells a connection that died from a statement that was refused.
func isConnectionLoss(err error) bool {
	if err == nil {
		return false
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return strings.HasPrefix(server.Code, "08") || strings.HasPrefix(server.Code, "57P") // connection, shutdown
	}
	var network net.Error
	return errors.As(err, &network) || pgconn.SafeToRetry(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.EOF) ||
		errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "conn closed")
}
