// Package topics is the worker of every domain whose rows carry a topic: it finds the handler of a row's topic.
//
// Handlers are registered before the worker runs and fixed from then on. Topics are compared byte for byte; there
// are no patterns. A [Registry] is for messages that reach their handlers without a worker.
package topics
