package peer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/txwork/txwork/bench/protocol"
)

// TakeProfiles are the profiles of peers that are SQL functions: how many items a call takes, and then settles at once.
var TakeProfiles = map[string]int{"one": 1, "hundred": 100}

// Taking describes [TakeProfiles] of a peer.
func Taking(calls string) map[string]string {
	profiles := map[string]string{}
	for name, n := range TakeProfiles {
		profiles[name] = fmt.Sprintf("clients that take and settle %d at a time with %s, each call in a transaction of "+
			"its own; the pool's connections are the clients; an idle client asks again after %v", n, calls, idlePoll)
	}
	return profiles
}

// idlePoll is how long a client waits if there was nothing for it.
const idlePoll = 10 * time.Millisecond

// A Take takes up to n items on a connection, calls handled for each and settles them. It returns how many they were.
type Take func(ctx context.Context, conn *pgxpool.Conn, n int, handled func()) (int, error)

// Clients lets a client on each connection of the pool take and settle until ctx ends. Each has a Take of its own,
// which may keep what one call tells the next. What a client has taken it settles, even if ctx ends meanwhile.
func Clients(ctx context.Context, pool *pgxpool.Pool, c protocol.Config, open func() Take, handled func()) error {
	whole := context.WithoutCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	for range max(1, c.Connections) {
		group.Go(func() error {
			conn, err := pool.Acquire(whole)
			if err != nil {
				return err
			}
			defer conn.Release()
			take := open()
			for ctx.Err() == nil {
				n, err := take(whole, conn, TakeProfiles[c.Profile], handled)
				if err != nil {
					return err
				}
				if n == 0 {
					_ = sleep(ctx, idlePoll) // its error is that of ctx
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// Foreign is SQL that is not part of this repository: an environment variable names its file.
type Foreign struct{ Env string }

// Text returns the statements.
func (f Foreign) Text() (string, error) {
	text, err := os.ReadFile(os.Getenv(f.Env))
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.Env, err)
	}
	return string(text), nil
}

// Version identifies the file by its content.
func (f Foreign) Version() string {
	text, err := f.Text()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("SHA-256 %x", sha256.Sum256([]byte(text)))[:len("SHA-256 ")+12]
}

// Prepare runs the statements, and then others.
func (f Foreign) Prepare(ctx context.Context, c protocol.Config, more string) error {
	text, err := f.Text()
	if err != nil {
		return err
	}
	return Exec(ctx, c, text+"\n"+more)
}

// Encoded are bodies in JSON.
func Encoded(bodies []protocol.Body) ([]json.RawMessage, error) {
	texts := make([]json.RawMessage, len(bodies))
	for i, b := range bodies {
		var err error
		if texts[i], err = json.Marshal(b); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// All returns an error unless all items that were taken are settled.
func All(settled, taken int, err error) error {
	if err == nil && settled != taken {
		err = fmt.Errorf("%d of %d items were settled", settled, taken)
	}
	return err
}
