package webui

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"
	"weak"
)

// Streams tell open pages that figures are new. A stream carries no figures: the page then reads itself again, with the
// rights that its user has by then.
const (
	maxStreams  = 100              // at once; pages beyond that ask at intervals
	beat        = 5 * time.Second  // between two signs of life at most. At each the user is authenticated again
	streamEnds  = 10 * time.Minute // then the browser opens the next: a server that is replaced gets rid of its streams
	streamWrite = 10 * time.Second // that a browser may take for one sign
	reconnect   = 3 * time.Second  // after which a browser opens a stream again that was cut off
)

// streams are those that are open. They end with their request, and when the server that they came through shuts down.
type streams struct {
	mu      sync.Mutex
	open    int
	servers map[weak.Pointer[http.Server]]chan struct{} // closed when the server shuts down
}

// enter counts a stream unless there are too many.
func (s *streams) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= maxStreams {
		return false
	}
	s.open++
	return true
}

func (s *streams) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// stopping is closed when the server of a request shuts down, which would otherwise wait for its streams. A server that
// shuts down takes no function any more, so this is asked at each request, and not only when a stream begins.
func (s *streams) stopping(r *http.Request) <-chan struct{} {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := weak.Make(server)
	if stop, known := s.servers[key]; known {
		return stop
	}
	stop := make(chan struct{})
	if s.servers == nil {
		s.servers = map[weak.Pointer[http.Server]]chan struct{}{}
	}
	s.servers[key] = stop
	server.RegisterOnShutdown(sync.OnceFunc(func() { close(stop) })) // each call of Shutdown runs it
	runtime.AddCleanup(server, s.forget, key)
	return stop
}

// forget removes a server that is gone.
func (s *streams) forget(server weak.Pointer[http.Server]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.servers, server)
}

// stream is that of a page. While one is open, figures are read as for somebody who looks all the time.
func (h *handler) stream(w http.ResponseWriter, r *http.Request) {
	if !h.streams.enter() {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "Too many pages are open.", http.StatusServiceUnavailable)
		return
	}
	defer h.streams.leave()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // for nginx, which would keep signs until it has enough of them
	control := http.NewResponseController(w)
	if control.Flush() != nil { // signs would be kept back
		http.Error(w, "There are no streams here.", http.StatusServiceUnavailable)
		return
	}
	_ = control.SetReadDeadline(time.Time{}) // that of the server would end the request
	tell := func(what string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(streamWrite))
		_, err := fmt.Fprint(w, what)
		return err == nil && control.Flush() == nil
	}
	if !tell(fmt.Sprintf("retry: %d\nevent: beat\ndata:\n\n", reconnect.Milliseconds())) {
		return
	}
	h.signal(r, tell)
}

// signal tells of new figures until the stream has to end.
func (h *handler) signal(r *http.Request, tell func(string) bool) {
	beats := time.NewTicker(min(beat, h.Refresh))
	defer beats.Stop()
	end := time.NewTimer(streamEnds)
	defer end.Stop()
	stopping := h.streams.stopping(r)
	_, changed := h.figures.begin()
	for {
		event := "beat"
		select {
		case <-changed:
			event = "figures"
			changed = h.figures.next()
		case <-beats.C:
			if _, err := h.authenticate(r); err != nil {
				return // the browser asks again, and is told why
			}
			_, changed = h.figures.begin()
		case <-end.C:
			return
		case <-stopping:
			return
		case <-r.Context().Done():
			return
		}
		if !tell("event: " + event + "\ndata:\n\n") {
			return
		}
	}
}
