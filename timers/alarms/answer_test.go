package alarms_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/txwork/txwork/timers/alarms"
)

// A receiver can write a status line of any length. The error must contain no more than 300 bytes of the answer.
func TestAReceiversOwnStatusIsNotTold(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			r.Body.Close()
			fmt.Fprintf(conn, "HTTP/1.1 500 \x1b[2J%s\r\nContent-Length: 0\r\n\r\n", strings.Repeat("long ", 4000))
		}
	}()
	err = newHTTPWaker(t, alarms.HTTPWakerOptions{URL: "http://" + listener.Addr().String(),
		AllowPrivate: true}).Wake(t.Context(), aWake())
	if want := "the receiver answered 500 Internal Server Error"; err == nil || err.Error() != want {
		t.Errorf("%.100q, want %q", fmt.Sprint(err), want)
	}
}
