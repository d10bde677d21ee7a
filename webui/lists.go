package webui

import (
	"html/template"
	"time"
)

// A filterForm narrows down a list.
type filterForm struct {
	Action string // the list
	Fields []filterField
	Given  bool // something is filtered
}

// A filterField is an input of the form.
type filterField struct{ Name, Label, Value, Hint string }

// A pager leads to other pages of a list.
type pager struct {
	First, Next template.URL // empty: there is none
	Searched    int          // rows, if the page ended before it was full
	SearchedTo  *time.Time
}
