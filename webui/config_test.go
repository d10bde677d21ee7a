package webui_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/webui"
	"github.com/txwork/txwork/workqueue"
)

func anyone(*http.Request) (webui.User, error) { return webui.User{Name: "ann"}, nil }

func TestAConfigurationThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	pool := &pgxpool.Pool{}
	for want, c := range map[string]webui.Config{
		"Pool is nil":               {Insecure: true},
		"Authenticate is nil":       {Pool: pool},
		"Insecure is set":           {Pool: pool, Insecure: true, Authenticate: anyone},
		"Refresh is -1s":            {Pool: pool, Insecure: true, Refresh: -time.Second},
		"Timeout is -1s":            {Pool: pool, Insecure: true, Timeout: -time.Second},
		"StatementTimeout is -1s":   {Pool: pool, Insecure: true, StatementTimeout: -time.Second},
		"StatementTimeout is 1.5µs": {Pool: pool, Insecure: true, StatementTimeout: 1500},
		`Schema "a b" must match`:   {Pool: pool, Insecure: true, Schema: "a b"},
	} {
		_, err := webui.New(c)
		if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("New says %v, want %q", err, want)
		}
	}
	for _, c := range []webui.Config{{Pool: pool, Insecure: true}, {Pool: pool, Authenticate: anyone}} {
		if _, err := webui.New(c); err != nil {
			t.Error(err)
		}
	}
}
