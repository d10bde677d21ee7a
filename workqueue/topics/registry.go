package topics

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/txwork/txwork/internal/input"
)

// MaxLength is how many bytes a topic may have. Topics are indexed.
const MaxLength = 255

// Check reports why a row cannot have a topic: it must be 1 to [MaxLength] bytes of UTF-8 without NUL.
func Check(topic string) error { return input.Name("topic", topic, MaxLength) }

// A registry maps topics to handlers. It is filled before its worker runs and fixed from then on. Registering is safe
// for concurrent use; find is, once the registry is sealed.
type registry[H any] struct {
	domain string
	runner string
	serves string // what the runner claims from, for its messages

	mu       sync.Mutex
	sealed   bool
	handlers map[string]H
	fallback *H
}

// newRegistry makes an empty registry. Domain and runner are words for its messages, such as outbox and relay.
func newRegistry[H any](domain, runner string) *registry[H] {
	return &registry[H]{domain: domain, runner: runner, serves: domain, handlers: map[string]H{}}
}

func (r *registry[H]) handle(topic string, h H) {
	r.register(topic, h, func() {
		if err := Check(topic); err != nil {
			panic(err)
		}
		if _, taken := r.handlers[topic]; taken {
			panic(fmt.Sprintf("%s: topic %q has a handler already", r.domain, topic))
		}
		r.handlers[topic] = h
	})
}

func (r *registry[H]) handleAll(h H) {
	r.register("every other topic", h, func() {
		if r.fallback != nil {
			panic(r.domain + ": there is a handler for every other topic already")
		}
		r.fallback = &h
	})
}

func (r *registry[H]) register(what string, h H, add func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := reflect.ValueOf(h); !v.IsValid() || v.IsZero() {
		panic(fmt.Sprintf("%s: the handler of %q is nil", r.domain, what))
	}
	if r.sealed {
		panic(fmt.Sprintf("%s: the %s is running: register handlers before Run", r.domain, r.runner))
	}
	add()
}

// seal fixes the handlers. It is an error if there are none.
func (r *registry[H]) seal() error {
	if err := r.check(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealed = true
	return nil
}

// check reports why the runner cannot run: there is no handler.
func (r *registry[H]) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.handlers) == 0 && r.fallback == nil {
		return fmt.Errorf("txwork: the %s of %s has no handler: call Handle or HandleAll before Run", r.runner,
			r.serves)
	}
	return nil
}

// find returns the handler of a topic, or that of all other topics. A topic without a handler is an error that a worker
// returns as a failed attempt and not as a permanent failure: another worker that knows the topic may be on its way, as
// in a rolling deploy.
func (r *registry[H]) find(topic string) (H, error) {
	if h, found := r.handlers[topic]; found {
		return h, nil
	}
	if r.fallback != nil {
		return *r.fallback, nil
	}
	var none H
	return none, fmt.Errorf("no handler is registered for topic %q", topic)
}
