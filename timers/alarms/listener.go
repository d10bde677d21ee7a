package alarms

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/netlimit"
)

const (
	// refusalTime is how long a connection that is one too many is kept, so that its client can read why.
	refusalTime = time.Second

	// maxRefusals is how many such connections are kept. Further ones are closed at once.
	maxRefusals = 64

	// maxUnread is how much of what such a client sends is read. A connection that is closed before that is reset, and
	// its client would not see the answer.
	maxUnread = 64 << 10
)

// Listener returns a listener for [Server.HTTP]. It bounds how many connections are open at once: see
// [ServerOptions].MaxConnections. It also makes envelopes of the answers that package net/http gives by itself to what
// is no request that it can serve, such as 400, 417, 431, 501 and 505. Under TLS, wrap the listener that accepts, and
// let the one of package tls wrap this one; net/http's own answers are text then.
func (s *Server) Listener(l net.Listener) net.Listener {
	busy := make(turnedAway, maxRefusals)
	return envelopes{netlimit.Listen(l, s.options.MaxConnections, busy.refuse)}
}

// envelopes is a listener whose connections make envelopes.
type envelopes struct{ net.Listener }

func (l envelopes) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn{c}, nil
}

// turnedAway has a value for each connection that is one too many.
type turnedAway chan struct{}

// refuse answers a connection that is one too many.
func (r turnedAway) refuse(c net.Conn) {
	select {
	case r <- struct{}{}:
	default:
		c.Close()
		return
	}
	go func() {
		defer func() { <-r }()
		defer c.Close()
		c.SetDeadline(time.Now().Add(refusalTime))
		c.Write(rawAnswer(http.StatusServiceUnavailable, answerError{Code: codeUnavailable,
			Message: "too many connections are open", Retryable: true}, "Retry-After: 1\r\n"))
		netlimit.CloseWrite(c)
		io.CopyN(io.Discard, c, maxUnread)
	}()
}

// A conn is a connection of a server.
type conn struct{ net.Conn }

// CloseWrite is what package net/http calls before it closes a connection.
func (c conn) CloseWrite() error { return netlimit.CloseWrite(c.Conn) }

// Write writes an envelope in place of an answer of package net/http.
func (c conn) Write(p []byte) (int, error) {
	if envelope := ofNetHTTP(p); envelope != nil {
		_, err := c.Conn.Write(envelope)
		return len(p), err
	}
	return c.Conn.Write(p)
}

// ownHeaders follow the status line of an answer that net/http gives before there is a request. Answers of handlers
// have other headers before these.
const ownHeaders = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// ofNetHTTP returns an envelope for an answer that net/http gives by itself, which it writes in one piece, and nil for
// any other text.
func ofNetHTTP(p []byte) []byte {
	line, rest, _ := bytes.Cut(p, []byte("\r\n"))
	fields := bytes.SplitN(line, []byte(" "), 3)
	if len(fields) < 3 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return nil
	}
	status, err := strconv.Atoi(string(fields[1]))
	text, own := strings.CutPrefix("\r\n"+string(rest), ownHeaders)
	switch {
	case err != nil || !own && status != http.StatusExpectationFailed:
		return nil
	case !own:
		text = "the only expectation that can be met is 100-continue"
	}
	e := answerError{Code: codeInvalidRequest, Message: reason(status, text)}
	if status == http.StatusRequestHeaderFieldsTooLarge {
		e.Code = codeTooLarge
	}
	return rawAnswer(status, e, "")
}

// reason is the text of an answer of net/http without the status, if it says more.
func reason(status int, text string) string {
	prefix := fmt.Sprintf("%d %s", status, http.StatusText(status))
	text = strings.TrimPrefix(strings.TrimPrefix(text, prefix), ": ")
	if text == "" {
		return strings.ToLower(http.StatusText(status))
	}
	return text
}

// rawAnswer is an answer as it is sent.
func rawAnswer(status int, e answerError, headers string) []byte {
	body, err := encode(envelope{Error: &e})
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"+
		"X-Content-Type-Options: nosniff\r\n%sConnection: close\r\nContent-Length: %d\r\n\r\n%s\n",
		status, http.StatusText(status), headers, len(body)+1, body)
}
