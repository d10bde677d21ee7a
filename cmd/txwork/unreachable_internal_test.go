package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestUnreachableSaysWhy(t *testing.T) {
	t.Parallel()
	full := &pgconn.PgError{Code: "53300", Message: "too many clients already"}
	if text := unreachable(t.Context(), full).Error(); !strings.Contains(text, "no free connection") ||
		strings.Contains(text, "URL") {
		t.Errorf("a full server: %s", text)
	}
	if text := unreachable(t.Context(), errors.New("refused")).Error(); !strings.Contains(text, "check the URL") {
		t.Errorf("no server: %s", text)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if err := unreachable(ctx, context.Canceled); !errors.Is(err, errInterrupted) {
		t.Errorf("an interrupted command: %v", err)
	}
}
