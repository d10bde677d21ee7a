// Package topics keeps the handlers of a worker by topic, for every domain whose rows carry one.
//
// A [Registry] is filled before its worker runs and fixed from then on. Topics are compared byte for byte;
// there are no patterns.
package topics

import (
	"fmt"
	"reflect"
	"sync"
)

// A Registry maps topics to handlers of type H, a function type. Make it with [New]. Registering is safe for
// concurrent use; [Registry.Find] is, once the Registry is sealed.
type Registry[H any] struct {
	domain string
	runner string
	check  func(topic string) error

	mu       sync.Mutex
	sealed   bool
	handlers map[string]H
	fallback *H
}

// New makes an empty Registry. Domain and runner are the words of its messages, such as outbox and relay.
// Check says what is wrong with a topic that no row can have.
func New[H any](domain, runner string, check func(topic string) error) *Registry[H] {
	return &Registry[H]{domain: domain, runner: runner, check: check, handlers: map[string]H{}}
}

// Handle registers the handler of a topic. Like [net/http.ServeMux] it panics where the program cannot
// have meant it: on a topic that no row can have, a nil handler, a topic that has a handler already, and
// after Seal.
func (r *Registry[H]) Handle(topic string, h H) {
	r.register(topic, h, func() {
		if err := r.check(topic); err != nil {
			panic(err)
		}
		if _, taken := r.handlers[topic]; taken {
			panic(fmt.Sprintf("%s: topic %q has a handler already", r.domain, topic))
		}
		r.handlers[topic] = h
	})
}

// HandleAll registers the handler of every topic that has none of its own. It panics like Handle.
func (r *Registry[H]) HandleAll(h H) {
	r.register("every other topic", h, func() {
		if r.fallback != nil {
			panic(r.domain + ": there is a handler for every other topic already")
		}
		r.fallback = &h
	})
}

func (r *Registry[H]) register(what string, h H, add func()) {
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

// Seal fixes the handlers. It is an error if there are none.
func (r *Registry[H]) Seal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.handlers) == 0 && r.fallback == nil {
		return fmt.Errorf("txwork: the %s has no handler: call Handle or HandleAll before Run", r.runner)
	}
	r.sealed = true
	return nil
}

// Find is the handler of a topic, or that of all others. Call it after Seal. A topic without a handler is
// an error that a worker returns as a failed attempt and not as a failure for good: another worker that
// knows the topic may be on its way, as in a rolling deploy.
func (r *Registry[H]) Find(topic string) (H, error) {
	if h, found := r.handlers[topic]; found {
		return h, nil
	}
	if r.fallback != nil {
		return *r.fallback, nil
	}
	var none H
	return none, fmt.Errorf("no handler is registered for topic %q", topic)
}
