package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// ErrNoChromium says what is missing, and how it is installed.
var ErrNoChromium = errors.New("no Chromium is installed: run .ci/browser install, or apt install chromium")

// Start starts Chromium without a window. What a context of chromedp does in it, it does in a tab of its own.
func Start(ctx context.Context) (context.Context, context.CancelFunc, error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, nil, ErrNoChromium
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("lang", "en-GB"), chromedp.Env("TZ=UTC"))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to run as root otherwise
	}
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	ctx, closeBrowser := chromedp.NewContext(ctx)
	stop := func() { closeBrowser(); end() }
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, nil, fmt.Errorf("starting Chromium: %w", err)
	}
	return ctx, stop, nil
}
