// Package schema is what ent's code is generated from.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// An Order is the application's only entity.
type Order struct{ ent.Schema }

// Fields implements [ent.Interface].
func (Order) Fields() []ent.Field {
	return []ent.Field{field.String("customer"), field.Int("cents")}
}
