//go:build unix

package torture

import (
	"context"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/frontend"
)

// A stepping connection belongs to a listener or an announcer. It reaches each of the announcer's points when its
// statement has been sent. pgx writes whole messages to it.
type stepping struct {
	net.Conn
	points *pointSet
	reader frontend.Reader
	phase  phase
}

// A phase is a phase of an announcer.
type phase uint8

const (
	phaseTakes phase = iota
	phaseAwake
	phaseFades
)

func (p *pointSet) step(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
	return &stepping{Conn: conn, points: p}, nil
}

// Write implements net.Conn.
func (c *stepping) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	for _, sql := range c.reader.Messages(b) {
		if point := c.point(sql); point != "" {
			c.points.reach(point)
		}
	}
	return n, err
}

// point returns the point that an announcer reaches by sending a statement.
func (c *stepping) point(sql string) string {
	switch {
	case strings.Contains(sql, "pg_try_advisory_lock("):
		return pointTakes
	case strings.HasPrefix(sql, "SELECT pg_advisory_unlock("):
		c.phase = phaseFades
		return pointReleases
	case strings.Contains(sql, "pg_notify("):
		return c.announces()
	case strings.Contains(sql, "FROM pg_locks"):
		return c.inPhase(pointTakesOver, pointSamples)
	case strings.Contains(sql, "AS l (after_due, after_id"):
		return c.inPhase(pointTakesOver, pointLooks)
	case strings.Contains(sql, "n.at > "):
		return c.inPhase(pointTakesOver, pointLooksNote)
	}
	return ""
}

// announces ends the first phase: an announcer that takes over announces everything.
func (c *stepping) announces() string {
	switch c.phase {
	case phaseTakes:
		c.phase = phaseAwake
		return pointTakesOver
	case phaseFades:
		return pointLast
	}
	return pointAnnounces
}

func (c *stepping) inPhase(takes, awake string) string {
	switch c.phase {
	case phaseTakes:
		return takes
	case phaseFades:
		return pointFades
	}
	return awake
}
