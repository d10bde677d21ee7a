// Package workqueue is the core of txwork.
package workqueue
