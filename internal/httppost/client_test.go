package httppost

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A receiver that sends its answer byte by byte holds nobody: what it decided is known from the status.
func TestAnswersThatDrip(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				for r.Context().Err() == nil {
					fmt.Fprint(w, "x")
					w.(http.Flusher).Flush()
					select {
					case <-r.Context().Done():
					case <-time.After(100 * time.Millisecond):
					}
				}
			}))
			t.Cleanup(s.Close)
			c, err := NewClient(ClientOptions{Timeout: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			request, err := http.NewRequest(http.MethodPost, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			answers := make(chan Answer, 1)
			go func() {
				a, err := c.Do(t.Context(), request)
				if err != nil {
					t.Error(err)
				}
				answers <- a
			}()
			select {
			case a := <-answers:
				if a.Status != status || status == 503 && a.Excerpt == "" {
					t.Errorf("got %+v", a)
				}
			case <-time.After(20 * time.Second):
				t.Error("it is waited for the answer's end")
			}
		})
	}
}
