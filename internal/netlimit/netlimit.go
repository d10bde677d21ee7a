// Package netlimit bounds how many connections of a listener are open at once.
package netlimit

import (
	"net"
	"sync"
)

// Listen returns a listener that accepts the connections of l, of which at most most are open at once. It passes each
// one that is too many to refuse, which has to close it and must not wait: no connection is accepted meanwhile.
func Listen(l net.Listener, most int, refuse func(net.Conn)) net.Listener {
	return &listener{l, make(chan struct{}, most), refuse}
}

type listener struct {
	net.Listener
	open   chan struct{} // a value for each connection
	refuse func(net.Conn)
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.open <- struct{}{}:
			return &conn{c, sync.OnceFunc(func() { <-l.open })}, nil
		default:
			l.refuse(c)
		}
	}
}

type conn struct {
	net.Conn
	release func()
}

func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}

// CloseWrite is what package net/http calls before it closes a connection.
func (c *conn) CloseWrite() error { return CloseWrite(c.Conn) }

// CloseWrite ends what is sent on a connection, if its network knows that.
func CloseWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
