package ent

// The feature gives ent's Tx the methods that workqueue.SQL needs.
//
//go:generate go run entgo.io/ent/cmd/ent@v0.14.5 generate --feature sql/execquery ./schema
