package netlimit_test

import (
	"io"
	"net"
	"testing"

	"github.com/txwork/txwork/internal/netlimit"
)

// One connection beyond the bound is refused, and there is room again when one has been closed, once however often
// that is done.
func TestListen(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan struct{}, 10)
	l := netlimit.Listen(tcp, 1, func(c net.Conn) {
		c.Close()
		refused <- struct{}{}
	})
	t.Cleanup(func() { l.Close() })
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first := <-accepted
	tooMany := dial()
	<-refused
	if _, err := tooMany.Read(make([]byte, 1)); err == nil {
		t.Error("a connection beyond the bound is open")
	}
	first.Close()
	first.Close()
	client := dial()
	second := <-accepted
	dial()
	<-refused
	if err := netlimit.CloseWrite(second); err != nil {
		t.Error(err)
	}
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the end of an answer is %v, want EOF", err)
	}
	second.Close()
}
