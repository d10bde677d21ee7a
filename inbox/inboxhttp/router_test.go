package inboxhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox/inboxhttp"
	"github.com/txwork/txwork/internal/httppost"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// record returns a handler that writes its name and the message's topic.
func record(name string) inboxhttp.Handler {
	return func(ctx context.Context, tx pgx.Tx, m *inboxhttp.Message) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1, $2)", m.ID, name+" of "+m.Topic)
		return err
	}
}

func (f *fixture) router(changes ...func(*inboxhttp.Options)) *inboxhttp.Router {
	f.Helper()
	r, err := inboxhttp.NewRouter(f.Pool, f.box, f.options(changes...))
	must(f.T, err)
	return r
}

// effect returns what a message's handler has written.
func (f *fixture) effect(id string) (body string) {
	f.Helper()
	must(f.T, f.Pool.QueryRow(f.Context(), "SELECT coalesce(min(body), '') FROM effects WHERE id = $1", id).Scan(&body))
	return body
}

// A message that the poster of outboxhttp sends reaches the handler of its topic, whatever bytes the topic has.
func TestPostedMessagesGoToTheHandlerOfTheirTopic(t *testing.T) {
	f := newFixture(t)
	r := f.router()
	r.Handle("order.placed", record("A"))
	r.Handle("50% Grüße", record("B"))
	r.Handle("shop", record("the source's"))
	poster, err := httppost.NewPoster(httppost.PosterOptions{URL: f.serve(r)})
	must(t, err)
	t.Cleanup(poster.Close)
	for topic, want := range map[string]string{
		"order.placed": "A of order.placed", "50% Grüße": "B of 50% Grüße", "": "the source's of shop",
	} {
		id := uuid.NewString()
		must(t, poster.Post(t.Context(), httppost.Message{ID: id, Topic: topic, Attempt: 1}, nil))
		if got := f.effect(id); got != want {
			t.Errorf("topic %q: the effect is %q, want %q", topic, got, want)
		}
	}
}

// A message without a handler fails and can be sent again, because another process may have the handler.
func TestATopicWithoutHandler(t *testing.T) {
	f := newFixture(t)
	r := f.router()
	url := f.serve(r)
	again := reply{500, "the message could not be processed; send it again", ""}
	if got := f.post(url, "a", "", inboxhttp.TopicHeader, "order.placed"); got != again {
		t.Errorf("got %+v, want %+v", got, again)
	}
	if logged := f.logs.String(); !strings.Contains(logged, `no handler is registered for topic \"order.placed\"`) {
		t.Errorf("the log does not name the topic: %s", logged)
	}
	r.HandleAll(record("the rest"))
	if got := f.post(url, "a", "", inboxhttp.TopicHeader, "order.placed"); got.status != 200 {
		t.Errorf("got %+v once there is a handler", got)
	}
	if got := f.post(url, "b", "", inboxhttp.TopicHeader, "%zz"); got.status != 400 {
		t.Errorf("got %+v for a topic that cannot be decoded", got)
	}
}

func TestTheOptionsNameTheTopic(t *testing.T) {
	f := newFixture(t)
	r := f.router(func(o *inboxhttp.Options) {
		o.Topic = func(r *http.Request) string { return r.Header.Get("X-Event") }
	})
	r.HandleAll(record("the rest"))
	url := f.serve(r)
	f.post(url, "a", "", "X-Event", "push", inboxhttp.TopicHeader, "other")
	f.post(url, "b", "", inboxhttp.TopicHeader, "other")
	if a, b := f.effect("a"), f.effect("b"); a != "the rest of push" || b != "the rest of shop" {
		t.Errorf("the effects are %q and %q", a, b)
	}
}

// A handler of the decoded value is made as for every domain.
func TestABodyIsDecoded(t *testing.T) {
	f := newFixture(t)
	r := f.router()
	type order struct{ Cents int }
	r.Handle("shop", codec.HandlerIn(func(ctx context.Context, tx pgx.Tx, m *inboxhttp.Message, o order) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1, $2)", m.ID, fmt.Sprint(o.Cents))
		return err
	}))
	url := f.serve(r)
	if got := f.post(url, "a", `{"Cents": 7}`); got.status != 200 || f.effect("a") != "7" {
		t.Errorf("got %+v, and the effect %q", got, f.effect("a"))
	}
	if got := f.post(url, "b", "seven"); got.status != 500 {
		t.Errorf("got %+v for a body that is no JSON", got)
	}
	if logged := f.logs.String(); !strings.Contains(logged, "does not decode into inboxhttp_test.order") {
		t.Errorf("the log does not tell why: %s", logged)
	}
	var decode *codec.DecodeError
	if err := (&inboxhttp.Message{Body: []byte("seven")}).Decode(t.Context(), new(order)); !errors.As(err, &decode) {
		t.Errorf("got %v, want a DecodeError", err)
	}
}

func TestARouterThatCannotWork(t *testing.T) {
	f := newFixture(t)
	if _, err := inboxhttp.NewRouter(nil, f.box, f.options()); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	defer func() {
		if got := fmt.Sprint(recover()); got != `inboxhttp: topic "a" has a handler already` {
			t.Errorf("panics with %q", got)
		}
	}()
	r := f.router()
	r.Handle("a", record("A"))
	r.Handle("a", record("A"))
}
