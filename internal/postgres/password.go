package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// RereadPassword returns a function that reads a connection's password again from where its connection string found it:
// a password file, a service file or the environment. It returns nil if the password is from elsewhere, such as from a
// program that has set it.
func RereadPassword(config *pgx.ConnConfig) func(context.Context, *pgx.ConnConfig) error {
	source := config.ConnString()
	if now, err := pgx.ParseConfig(source); source == "" || err != nil || now.Password != config.Password {
		return nil
	}
	return func(_ context.Context, to *pgx.ConnConfig) error {
		if now, err := pgx.ParseConfig(source); err == nil { // a file that is being written is read the next time
			to.Password = now.Password
		}
		return nil
	}
}
