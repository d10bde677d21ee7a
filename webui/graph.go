package webui

import (
	"cmp"
	"slices"

	"github.com/txwork/txwork/internal/survey"
)

// A graph shows tasks in layers from left to right: each stands behind all that it waits for. What would be too much to
// look at is one node with a count: tasks of one state in one layer, and layers behind each other whose tasks are all
// in one state.
type graph struct {
	Nodes         []graphNode
	Edges         []graphEdge
	Width, Height int
	Layers        int
}

// A graphNode is a task or, if N is more than 1, several in one state.
type graphNode struct {
	survey.Task
	N, Layers int
	X, Y      int
}

// A graphEdge goes from the right of a node to the left of another.
type graphEdge struct{ X1, Y1, X2, Y2, M int }

// Sizes of a graph. Few is how many tasks of a state a large layer shows one by one.
const (
	nodeWidth, nodeHeight = 180, 44
	gapX, gapY            = 56, 14
	largeLayer            = 8
	few                   = 2
	manyLayers            = 12
	maxDrawn              = 60 // layers; the others are in the list only
)

// taskStates are the states of members, in the order in which they are of interest.
var taskStates = []string{"failed", "expired", "in_progress", "ready", "scheduled", "waiting", "done", "gone"}

// newGraph returns nil if no task depends on another: then there is nothing to see that a list does not show.
func newGraph(tasks []survey.Task, edges []survey.Edge) *graph {
	if len(edges) == 0 {
		return nil
	}
	layers := layersOf(tasks, edges)
	g := &graph{Layers: len(layers)}
	in := map[string]int{} // the node of each task
	column := 0
	for i := 0; i < len(layers) && column < maxDrawn; column++ {
		group := layers[i]
		spans := 1
		for len(layers) > manyLayers && uniform(group) && i+spans < len(layers) &&
			uniform(layers[i+spans]) && layers[i+spans][0].State == group[0].State {
			group = append(slices.Clip(group), layers[i+spans]...)
			spans++
		}
		i += spans
		g.place(column, group, spans, in)
	}
	g.connect(edges, in)
	return g
}

// layersOf sorts tasks into layers, each behind those that its tasks wait for. Tasks of a cycle, which there cannot be,
// would be left out.
func layersOf(tasks []survey.Task, edges []survey.Edge) (layers [][]survey.Task) {
	index := map[string]int{}
	for i, t := range tasks {
		index[t.ID] = i
	}
	behind, missing := make([][]int, len(tasks)), make([]int, len(tasks))
	for _, e := range edges {
		to, known := index[e.Task]
		from, also := index[e.After]
		if known && also {
			behind[from] = append(behind[from], to)
			missing[to]++
		}
	}
	depth := make([]int, len(tasks))
	var free []int
	for i, n := range missing {
		if n == 0 {
			free = append(free, i)
		}
	}
	for n := 0; n < len(free); n++ {
		i := free[n]
		for len(layers) <= depth[i] {
			layers = append(layers, nil)
		}
		layers[depth[i]] = append(layers[depth[i]], tasks[i])
		for _, to := range behind[i] {
			depth[to] = max(depth[to], depth[i]+1)
			if missing[to]--; missing[to] == 0 {
				free = append(free, to)
			}
		}
	}
	for _, layer := range layers {
		slices.SortFunc(layer, func(a, b survey.Task) int {
			return cmp.Or(cmp.Compare(slices.Index(taskStates, a.State), slices.Index(taskStates, b.State)),
				cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		})
	}
	return layers
}

// uniform tells whether all tasks of a sorted layer are in one state.
func uniform(layer []survey.Task) bool { return layer[0].State == layer[len(layer)-1].State }

// place adds the nodes of a column.
func (g *graph) place(column int, layer []survey.Task, spans int, in map[string]int) {
	y := gapY
	for from := 0; from < len(layer); {
		to := from + 1
		for to < len(layer) && layer[to].State == layer[from].State {
			to++
		}
		step := 1
		if spans > 1 || len(layer) > largeLayer && to-from > few {
			step = to - from
		}
		for ; from < to; from += step {
			node := graphNode{Task: layer[from], N: step, Layers: spans, X: gapY + column*(nodeWidth+gapX), Y: y}
			for _, t := range layer[from : from+step] {
				in[t.ID] = len(g.Nodes)
			}
			g.Nodes = append(g.Nodes, node)
			y += nodeHeight + gapY
			g.Width, g.Height = max(g.Width, node.X+nodeWidth+gapY), max(g.Height, y)
		}
	}
}

// connect draws an edge between nodes of which tasks depend on each other.
func (g *graph) connect(edges []survey.Edge, in map[string]int) {
	drawn := map[[2]int]bool{}
	for _, e := range edges {
		from, known := in[e.After]
		to, also := in[e.Task]
		if !known || !also || from == to || drawn[[2]int{from, to}] {
			continue
		}
		drawn[[2]int{from, to}] = true
		a, b := g.Nodes[from], g.Nodes[to]
		edge := graphEdge{X1: a.X + nodeWidth, Y1: a.Y + nodeHeight/2, X2: b.X, Y2: b.Y + nodeHeight/2}
		edge.M = (edge.X1 + edge.X2) / 2
		g.Edges = append(g.Edges, edge)
	}
}

// NodeWidth and NodeHeight are sizes for the template.
func (graph) NodeWidth() int { return nodeWidth }

// NodeHeight is that of a node.
func (graph) NodeHeight() int { return nodeHeight }

// TextX and TextY are where the lines of a node begin.
func (n graphNode) TextX() int { return n.X + 12 }

// TextY is the first line.
func (n graphNode) TextY() int { return n.Y + 18 }

// StateY is the second line.
func (n graphNode) StateY() int { return n.Y + 35 }
