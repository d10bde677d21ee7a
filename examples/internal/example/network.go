package example

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
)

// A Network is an unreliable transport for an HTTP client: it sends every fifth request twice, concurrently, and loses
// every seventh reply.
type Network struct {
	Requests, Repeated, Lost atomic.Int64

	underway sync.WaitGroup
}

// RoundTrip implements [http.RoundTripper].
func (n *Network) RoundTrip(request *http.Request) (*http.Response, error) {
	number := n.Requests.Add(1)
	if number%5 == 0 {
		n.Repeated.Add(1)
		n.underway.Go(func() { repeat(request) })
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err == nil && number%7 == 0 {
		n.Lost.Add(1)
		response.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return response, err
}

// Wait waits until all repeated requests have been answered.
func (n *Network) Wait() { n.underway.Wait() }

func repeat(request *http.Request) {
	again := request.Clone(context.WithoutCancel(request.Context()))
	again.Body, _ = request.GetBody()
	if response, err := http.DefaultTransport.RoundTrip(again); err == nil {
		response.Body.Close()
	}
}
