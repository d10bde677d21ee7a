package report

import (
	"bytes"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/txwork/txwork/bench/results"
)

// Colours of the bars. Plots have a white background, also on pages with a dark one.
var (
	ownColor   = color.RGBA{R: 0x1f, G: 0x6f, B: 0xb4, A: 0xff}
	limitColor = color.RGBA{R: 0x9a, G: 0x9a, B: 0x9a, A: 0xff}
	peerColor  = color.RGBA{R: 0xe0, G: 0x8a, B: 0x1e, A: 0xff}
	lineColor  = color.RGBA{R: 0x22, G: 0x22, B: 0x22, A: 0xff}
)

const (
	barWidth   = vg.Length(16) // points
	barSpace   = vg.Length(30) // from one bar to the next
	plotWidth  = vg.Length(560)
	plotFrame  = vg.Length(80) // title and axis
	plotMargin = vg.Length(8)
)

// picture draws a workload's rows as an SVG of bars with their spread, the best on top.
func picture(w results.Workload, rows []row) ([]byte, error) {
	if w == results.Processes {
		return processesPicture(rows)
	}
	rows = slices.Clone(rows)
	slices.Reverse(rows) // the first bar is the lowest
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = titles[w]
	p.X.Label.Text = "jobs/s, median and spread"
	if w == results.Latency {
		p.X.Label.Text = "ms from insert to handler start, median of p50 and spread (lower is better)"
	}
	sans(p)
	p.X.Min = 0
	p.X.Tick.Marker = plot.TickerFunc(ticks)
	if err := add(p, rows); err != nil {
		return nil, err
	}
	p.X.Max *= 1.05 // room for the last whisker's cap
	return render(p, plotFrame+barSpace*vg.Length(len(rows)))
}

// sans sets the font of all text of a plot, and of more text styles.
func sans(p *plot.Plot, more ...*text.Style) {
	for _, style := range append(more, &p.Title.TextStyle, &p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label) {
		style.Font.Variant = "Sans"
	}
}

func add(p *plot.Plot, rows []row) error {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.label()
		bar, err := plotter.NewBarChart(plotter.Values{r.value.Median}, barWidth)
		if err != nil {
			return err
		}
		bar.Horizontal, bar.XMin = true, float64(i)
		bar.Color, bar.LineStyle.Width = colorOf(r), 0
		p.Add(bar)
	}
	spreads, err := plotter.NewXErrorBars(whiskers(rows))
	if err != nil {
		return err
	}
	spreads.Color, spreads.Width = lineColor, vg.Points(1.2)
	p.Add(spreads)
	p.NominalY(names...)
	return nil
}

func colorOf(r row) color.Color {
	switch r.Peer {
	case own:
		return ownColor
	case limit:
		return limitColor
	default:
		return peerColor
	}
}

// bars are medians with their distances to the ends of the spread.
type bars struct {
	plotter.XYs
	plotter.XErrors
}

func whiskers(rows []row) bars {
	b := bars{make(plotter.XYs, len(rows)), make(plotter.XErrors, len(rows))}
	for i, r := range rows {
		b.XYs[i].X, b.XYs[i].Y = r.value.Median, float64(i)
		b.XErrors[i].Low, b.XErrors[i].High = r.value.Median-r.value.Min, r.value.Max-r.value.Median
	}
	return b
}

// ticks returns the default ticks, with commas in their labels.
func ticks(low, high float64) []plot.Tick {
	all := plot.DefaultTicks{}.Ticks(low, high)
	for i, t := range all {
		if t.Label != "" && t.Value >= 1000 {
			all[i].Label = count(t.Value)
		}
	}
	return all
}

func render(p *plot.Plot, height vg.Length) ([]byte, error) {
	canvas := vgsvg.New(plotWidth, height)
	p.Draw(draw.Crop(draw.New(canvas), plotMargin, -plotMargin, plotMargin, -plotMargin))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	// If the font is not installed, a font with the same widths should replace it.
	const family = "font-family:Liberation Sans"
	return bytes.ReplaceAll(out.Bytes(), []byte(family), []byte(family+",Arial,Helvetica,sans-serif")), nil
}
