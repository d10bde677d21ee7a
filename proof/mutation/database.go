package mutation

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// databases numbers the databases, so that their names are unique.
var databases atomic.Int64

// database creates a database for one run of a suite, so that what a killed run leaves behind does not disturb the
// next. The returned function drops it, even if sessions are still connected.
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
		_ = l.execute(ctx, "DROP DATABASE "+name+" WITH (FORCE)") // if this fails, the server removes it when it stops
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
