package mutation

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// databases counts them, so that no two have one name.
var databases atomic.Int64

// database makes a database for one run of a suite: what a killed run leaves behind must not meet the next. The
// returned function drops it with whoever is still connected.
func (l *lab) database(ctx context.Context) (address string, drop func(), err error) {
	name := fmt.Sprintf("mutant_%d", databases.Add(1))
	if err := l.execute(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	u, err := url.Parse(l.url)
	if err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = l.execute(ctx, "DROP DATABASE "+name+" WITH (FORCE)") // what is left goes with the server
	}, nil
}

func (l *lab) execute(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, l.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}
