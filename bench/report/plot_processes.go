package report

import (
	"image/color"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/txwork/txwork/bench/results"
)

const linesHeight = vg.Length(260)

// processesPicture draws each entrant's jobs/s by the number of processes as a line with its spread.
func processesPicture(rows []row) ([]byte, error) {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = titles[results.Processes]
	p.X.Label.Text = "worker processes"
	p.Y.Label.Text = "jobs/s of all, median and spread"
	sans(p, &p.Y.Label.TextStyle, &p.Legend.TextStyle)
	p.Y.Min = 0
	p.Y.Tick.Marker = plot.TickerFunc(ticks)
	p.Legend.Top = true
	for _, s := range byProcesses(rows) {
		if err := addLine(p, s); err != nil {
			return nil, err
		}
	}
	names := make([]string, len(results.ProcessCounts))
	for i, n := range results.ProcessCounts {
		names[i] = strconv.Itoa(n)
	}
	p.NominalX(names...)
	p.Y.Max *= 1.25 // room for the legend
	return render(p, linesHeight)
}

func addLine(p *plot.Plot, s series) error {
	points := spreads{make(plotter.XYs, len(s.rows)), make(plotter.YErrors, len(s.rows))}
	for i, r := range s.rows {
		points.XYs[i].X, points.XYs[i].Y = place(r.processes), r.value.Median
		points.YErrors[i].Low, points.YErrors[i].High = r.value.Median-r.value.Min, r.value.Max-r.value.Median
	}
	line, err := plotter.NewLine(points.XYs)
	if err != nil {
		return err
	}
	whiskers, err := plotter.NewYErrorBars(points)
	if err != nil {
		return err
	}
	c := colorOf(s.rows[0])
	line.Color, line.Width = c, vg.Points(2)
	whiskers.Color = c
	p.Add(line, whiskers)
	p.Legend.Add(s.label, line)
	return nil
}

// spreads are medians with their distances to the ends of the spread.
type spreads struct {
	plotter.XYs
	plotter.YErrors
}

// place returns the position of a number of processes on the axis.
func place(processes int) float64 {
	for i, n := range results.ProcessCounts {
		if n == processes {
			return float64(i)
		}
	}
	return -1
}
