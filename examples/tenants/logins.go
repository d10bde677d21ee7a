package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// logins are the pools of all roles and tenants. In a real application, each process has one of them.
type logins struct {
	owner    *pgxpool.Pool
	password string
	pools    map[[2]string]*pgxpool.Pool
}

// as returns the pool of a role for a tenant. All its connections have the tenant as a setting from the start. An empty
// tenant means none.
func (l *logins) as(role, tenant string) *pgxpool.Pool {
	key := [2]string{role, tenant}
	if pool := l.pools[key]; pool != nil {
		return pool
	}
	config := l.owner.Config()
	config.ConnConfig.User, config.ConnConfig.Password = schema+"_"+role, l.password
	config.ConnConfig.RuntimeParams["search_path"] = schema
	if tenant != "" {
		config.ConnConfig.RuntimeParams["app.tenant"] = tenant
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		panic(err) // cannot happen: the configuration is a copy of a valid one
	}
	if l.pools == nil {
		l.pools = map[[2]string]*pgxpool.Pool{}
	}
	l.pools[key] = pool
	return pool
}

func (l *logins) close() {
	for _, pool := range l.pools {
		pool.Close()
	}
}
