package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/txwork/txwork/webui"
)

// picturesDir is where the documentation has its pictures.
const picturesDir = "docs/pictures"

// Pictures makes a picture of every page in every look.
func Pictures(ctx context.Context, args []string, out, progress io.Writer) (found bool, err error) {
	flags := flag.NewFlagSet("pictures", flag.ContinueOnError)
	flags.SetOutput(progress)
	dir := flags.String("dir", picturesDir, "`directory` of the pictures")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	ctx, stop, err := Start(ctx)
	if err != nil {
		return false, err
	}
	defer stop()
	s, err := Open(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, p := range Pages {
		if err := s.served(ctx, p, *dir); err != nil {
			return false, err
		}
	}
	return false, sizes(*dir, out)
}

// served makes the pictures of a page by a dashboard of its own.
func (s *Shop) served(ctx context.Context, p Page, dir string) error {
	config := webui.Config{Pool: s.Pool, Insecure: true, Logger: slog.New(slog.DiscardHandler)}
	p.configure(&config)
	dashboard, err := webui.New(config)
	if err != nil {
		return err
	}
	server := httptest.NewServer(dashboard)
	defer func() {
		server.Listener.Close() // before the streams of the page, which it would open again
		server.CloseClientConnections()
		server.Close()
	}()
	return s.picture(ctx, server.URL, p, dir)
}

// picture makes the pictures of a page.
func (s *Shop) picture(ctx context.Context, root string, p Page, dir string) error {
	path, err := p.Of(ctx, s)
	if err != nil {
		return err
	}
	if err := Looks[0].set(ctx); err != nil {
		return err
	}
	if err := open(ctx, root+path, p.Shows); err != nil {
		return err
	}
	for _, look := range Looks {
		if err := look.set(ctx); err != nil {
			return err
		}
		picture, err := chromedp.Run(ctx, capture(look))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, p.Name+"-"+look.String()+".webp"), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// maxHeight is where pictures of long pages end.
const maxHeight = 1000

// capture is a picture of the page, from its top.
func capture(look Look) chromedp.Action[[]byte] {
	return func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		height, err := chromedp.Evaluate[float64]("document.documentElement.scrollHeight")(ctx, t)
		if err != nil {
			return nil, err
		}
		quality, beyond := int64(60), true
		r, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format: page.CaptureScreenshotFormatWebp, Quality: &quality, CaptureBeyondViewport: &beyond,
			Clip: &page.Viewport{Width: float64(look.Width), Height: min(height, maxHeight), Scale: 1}})
		return r.Data, err
	}
}

// sizes prints the sizes of the pictures.
func sizes(dir string, out io.Writer) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.webp"))
	var all int64
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		all += info.Size()
		fmt.Fprintf(out, "%s %d\n", file, info.Size())
	}
	fmt.Fprintf(out, "%d bytes\n", all)
	return err
}
