package service

import (
	"context"
	"fmt"
	"log/slog"
)

// A pooled part has handlers that each hold a connection of the pool, whatever they do.
type pooled interface{ PoolConnections() int }

// Log lines about the size of the pool.
const (
	poolTooSmall = "the pool is too small: inbox handlers, which each have a transaction, wait for each other"
	poolSmaller  = "handlers that use the pool may wait for each other: it has fewer connections than there are handlers"
)

// comparePool says at the start if handlers have to wait for connections of the pool. Later nothing would tell: they
// only take longer.
func (s *Service) comparePool(ctx context.Context) {
	connections := int(s.pool.Config().MaxConns)
	need, handlers := s.demand()
	tell := func(level slog.Level, what string, handlers int, otherwise string) {
		s.options.Logger.LogAttrs(ctx, level, what, slog.Int("pool_connections", connections),
			slog.Int("handlers", handlers), slog.String("remedy", fmt.Sprintf(
				"set pool_max_conns in the pool's URL, or its MaxConns, to %d or more; it has %d%s", handlers, connections,
				otherwise)))
	}
	switch {
	case need > connections:
		tell(slog.LevelWarn, poolTooSmall, need, "")
	case handlers > connections && !s.options.HandlersWithoutPool:
		tell(slog.LevelInfo, poolSmaller, handlers, "; if no handler uses the pool, set HandlersWithoutPool in "+
			"service.Options")
	}
}

// demand returns how many connections of the pool handlers need at once, whatever they do, and how many handlers there
// are.
func (s *Service) demand() (need, handlers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if p, ok := m.part.(pooled); ok {
			need += p.PoolConnections()
		}
		for _, w := range m.part.Workers() {
			handlers += w.Options().Concurrency
		}
	}
	return need, handlers
}
