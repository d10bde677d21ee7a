package workerfile

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A Problem is a mistake in a file. Line and column begin at 1; a line of 0 is the whole file.
type Problem struct {
	Line    int    `json:"line"`    // line of the mistake, from 1; 0 for the whole file
	Column  int    `json:"column"`  // from 1
	Path    string `json:"path"`    // such as outbox.topics.a.exec; empty for the whole file
	Message string `json:"message"` // what is wrong, and what may stand there
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Problems are all mistakes in a file, in the order of their lines.
type Problems struct {
	Name string
	List []Problem
}

// Error has a line for each problem, which begins like a compiler's message: name:line:column.
func (p *Problems) Error() string {
	lines := make([]string, len(p.List))
	for i, one := range p.List {
		lines[i] = fmt.Sprintf("%s:%d:%d: %s", p.Name, one.Line, one.Column, one)
	}
	return strings.Join(lines, "\n")
}

// A value is a node of the syntax tree.
type value struct {
	node ast.Node
	key  ast.Node // its key; nil in a list
	path string
}

func (v value) under(name string, key, node ast.Node) value {
	return value{node, key, strings.TrimPrefix(v.path+"."+name, ".")}
}

// A reader reads values and collects problems.
type reader struct {
	getenv   func(string) (string, bool)
	problems []Problem
}

func (r *reader) report(v value, format string, args ...any) {
	line, column := position(v)
	r.problems = append(r.problems, Problem{line, column, v.path, fmt.Sprintf(format, args...)})
}

// refuse reports an error of the library about a value. The error's text names the field.
func (r *reader) refuse(v value, err error) {
	if err != nil {
		r.report(v, "%s", strings.TrimPrefix(err.Error(), "txwork: "))
	}
}

// position is that of the value's key, if it has one: an empty or a wrong value may begin on another line.
func position(v value) (line, column int) {
	node := v.key
	if node == nil {
		node = v.node
	}
	if node == nil || node.GetToken() == nil {
		return 0, 0
	}
	at := node.GetToken().Position
	return at.Line, at.Column
}

func (r *reader) sorted() []Problem {
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return r.problems
}

// each calls read for every pair of a mapping.
func (r *reader) each(v value, read func(name string, v value)) {
	mapping, ok := v.node.(ast.MapNode)
	if !ok {
		r.report(v, "has to be a mapping of names to values, and is %s", kind(v.node))
		return
	}
	for pairs := mapping.MapRange(); pairs.Next(); {
		name := pairs.Key().GetToken().Value
		read(name, v.under(name, pairs.Key(), pairs.Value()))
	}
}

// fields are the fields that a mapping may have, each with the function that reads it.
type fields map[string]func(v value)

func (r *reader) mapping(v value, known fields) {
	r.each(v, func(name string, v value) {
		read, ok := known[name]
		if !ok {
			r.report(v, "is unknown: want one of %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			return
		}
		read(v)
	})
}

func kind(n ast.Node) string {
	switch n.(type) {
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	case *ast.AliasNode, *ast.AnchorNode:
		return "an anchor or alias, which this file cannot have"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	}
	return "a " + strings.ToLower(n.Type().String())
}

// scalar returns a scalar's text. A number is returned as written, so that an unquoted 007 is not 7.
func (r *reader) scalar(v value) (string, bool) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	r.report(v, "has to be a single value, and is %s", kind(v.node))
	return "", false
}

func (r *reader) text(to *string) func(value) {
	return func(v value) {
		text, ok := r.scalar(v)
		if ok && text == "" {
			r.report(v, "is empty")
		}
		*to = text
	}
}

// reference matches a reference to an environment variable.
var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expanded reads a text in which ${NAME} is an environment variable, so that secrets need not be in the file.
func (r *reader) expanded(to *string) func(value) {
	return func(v value) { r.expand(v, to) }
}

// expand returns the names of the variables that it expanded.
func (r *reader) expand(v value, to *string) (names []string) {
	r.text(to)(v)
	*to = reference.ReplaceAllStringFunc(*to, func(match string) string {
		name := reference.FindStringSubmatch(match)[1]
		names = append(names, name)
		text, set := r.getenv(name)
		if !set {
			r.report(v, "refers to the environment variable %s, which is not set", name)
			return "unset"
		}
		return text
	})
	return names
}

func (r *reader) texts(to *[]string) func(value) {
	return func(v value) {
		list, ok := v.node.(*ast.SequenceNode)
		if !ok {
			r.report(v, "has to be a list, and is %s", kind(v.node))
			return
		}
		for i, node := range list.Values {
			text, _ := r.scalar(value{node: node, path: fmt.Sprintf("%s[%d]", v.path, i)})
			*to = append(*to, text)
		}
	}
}

func (r *reader) integer(to *int, low, high int) func(value) {
	return func(v value) {
		text, ok := r.scalar(v)
		if !ok {
			return
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			r.report(v, "is %s, it must be a number from %d to %d", text, low, high)
		}
		*to = n
	}
}

func (r *reader) boolean(to *bool) func(value) {
	return func(v value) {
		n, ok := v.node.(*ast.BoolNode)
		if !ok {
			r.report(v, "has to be true or false")
			return
		}
		*to = n.Value
	}
}

func (r *reader) share(to *float64) func(value) {
	return func(v value) {
		text, ok := r.scalar(v)
		if !ok {
			return
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			r.report(v, "is %s, it must be a number from 0 to 1", text)
		}
		*to = f
	}
}

// choice reads one of several words.
func choice[T any](r *reader, to *T, words map[string]T) func(value) {
	return func(v value) {
		text, ok := r.scalar(v)
		if !ok {
			return
		}
		chosen, known := words[text]
		if !known {
			r.report(v, "is %q: want one of %s", text, strings.Join(slices.Sorted(maps.Keys(words)), ", "))
		}
		*to = chosen
	}
}

// duration reads a duration between low and high.
func (r *reader) duration(to *time.Duration, low, high time.Duration) func(value) {
	return func(v value) {
		text, ok := r.scalar(v)
		if !ok {
			return
		}
		d, err := input.Duration(text)
		switch {
		case err != nil:
			r.report(v, "is %q: %v", text, err)
		case d < low || d > high:
			r.report(v, "is %s, it must be between %v and %v", text, low, high)
		}
		*to = d
	}
}

// retry reads a backoff, all parts of which have defaults.
func (r *reader) retry(to *workqueue.Retry) func(value) {
	return func(v value) {
		before, retry := len(r.problems), workqueue.DefaultRetry
		r.mapping(v, fields{
			"growth": choice(r, &retry.Growth, map[string]workqueue.Growth{
				"constant": workqueue.Constant, "linear": workqueue.Linear, "quadratic": workqueue.Quadratic,
				"exponential": workqueue.Exponential,
			}),
			"base":   r.duration(&retry.Base, time.Millisecond, input.MaxDuration),
			"cap":    r.duration(&retry.Cap, time.Millisecond, input.MaxDuration),
			"jitter": r.share(&retry.Jitter),
		})
		if len(r.problems) > before {
			return
		}
		if _, err := outbox.Open(outbox.Options{Retry: retry}); err != nil { // every table has the same rules
			r.refuse(v, err)
			return
		}
		*to = retry
	}
}
