package alarms_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/txwork/txwork/timers/alarms"
)

// The owner of a name can resolve it to an address that is not public, so the address is checked every time it is
// dialled. The test is not parallel, because it replaces the resolver of the process.
func TestANameThatLeadsInsideIsRefused(t *testing.T) {
	reached := make(chan bool, 1)
	url := serve(t, func(http.ResponseWriter, *http.Request) { reached <- true })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	resolveEverythingTo(t, net.IPv4(127, 0, 0, 1))
	o := alarms.HTTPWakerOptions{URL: "http://wakes.example.org:" + port, Timeout: patience}
	if err := newHTTPWaker(t, o).Wake(t.Context(), aWake()); err == nil ||
		!strings.Contains(err.Error(), "is not public") || len(reached) > 0 {
		t.Errorf("error %v, reached %d times", err, len(reached))
	}
	o.AllowPrivate = true
	if err := newHTTPWaker(t, o).Wake(t.Context(), aWake()); err != nil || len(reached) != 1 {
		t.Errorf("where it is allowed: error %v, reached %d times", err, len(reached))
	}
}

// resolveEverythingTo resolves every name in this process to one address until the test ends.
func resolveEverythingTo(t *testing.T, ip net.IP) {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		query := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			server.WriteTo(answerDNS(query[:n], ip.To4()), from)
		}
	}()
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// answerDNS answers a DNS query with one question (RFC 1035): with one A record, or with none if the query asks for
// another type.
func answerDNS(query []byte, ip net.IP) []byte {
	const header, typeA, classIN, ttl = 12, 1, 1, 0
	end := header
	for query[end] != 0 { // labels of the name
		end += 1 + int(query[end])
	}
	end += 5 // the end of the name, the type and the class
	answer := append([]byte{}, query[:end]...)
	binary.BigEndian.PutUint16(answer[2:], 0x8180) // a response, recursion available
	for i, count := range []uint16{1, 0, 0, 0} {
		binary.BigEndian.PutUint16(answer[4+2*i:], count)
	}
	if binary.BigEndian.Uint16(query[end-4:]) != typeA {
		return answer
	}
	binary.BigEndian.PutUint16(answer[6:], 1)
	answer = append(answer, 0xc0, header, 0, typeA, 0, classIN, 0, 0, 0, ttl, 0, byte(len(ip)))
	return append(answer, ip...)
}
