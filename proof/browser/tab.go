package browser

import (
	"context"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// A Look is how a page is looked at.
type Look struct {
	Width int64
	Dark  bool
}

// Looks are those that every page has to be right in.
var Looks = []Look{{1280, false}, {1280, true}, {400, false}, {400, true}}

// String names the look in names of pictures.
func (l Look) String() string {
	if l.Dark {
		return fmt.Sprintf("%d-dark", l.Width)
	}
	return fmt.Sprintf("%d-light", l.Width)
}

// set makes the tab look at pages in this way.
func (l Look) set(ctx context.Context) error {
	scheme := "light"
	if l.Dark {
		scheme = "dark"
	}
	return chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: l.Width, Height: 900, DeviceScaleFactor: 1, Mobile: l.Width < 600})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// await evaluates an expression of JavaScript until it is true of a page that is loaded.
func await(ctx context.Context, condition string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not become true: %s", condition))
	defer cancel()
	for {
		// A page that is just leaving cannot answer, the next one can.
		if holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](
			`document.readyState === "complete" && (`+condition+`)`)); err == nil && holds {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// open opens a page, again and again until it shows a text: figures take a moment to be read.
func open(ctx context.Context, address, text string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s does not show %q", address, text))
	defer cancel()
	for {
		err := chromedp.Do(ctx, chromedp.Navigate(address))
		if err != nil {
			return fmt.Errorf("%s: %w", address, err)
		}
		shown, err := chromedp.Run(ctx, chromedp.Evaluate[bool](shows(text)))
		if shown || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// shows is an expression that tells whether the content of a page has a text, and that nothing is missing that is read
// in the background.
func shows(text string) string {
	return fmt.Sprintf(`(page => page.includes(%q) && !page.includes("The doctor is looking") &&
		!page.includes("for the first time") && !page.includes("Differences are looked for") &&
		!page.includes("Counts are being read"))(document.getElementById("main").innerText)`, text)
}
