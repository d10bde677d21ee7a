package webui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
)

//go:embed assets
var assetFiles embed.FS

// assetTypes are the files, each with its type. Nothing else below assets is served.
var assetTypes = map[string]string{
	"style.css":  "text/css; charset=utf-8",
	"script.js":  "text/javascript; charset=utf-8",
	"txwork.svg": "image/svg+xml",
}

// assetVersion is a digest of all files. It is in their addresses, so that browsers may keep them for ever.
var assetVersion = func() string {
	sum := sha256.New()
	for _, name := range []string{"style.css", "script.js", "txwork.svg"} {
		text, err := fs.ReadFile(assetFiles, "assets/"+name)
		if err != nil {
			panic(err)
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}()

func isAsset(method, name string) bool {
	return assetTypes[name] != "" && (method == http.MethodGet || method == http.MethodHead)
}

func serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	text, _ := fs.ReadFile(assetFiles, "assets/"+name) // assetVersion has read it
	w.Header().Set("Content-Type", assetTypes[name])
	if r.URL.Query().Get("v") == assetVersion {
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	_, _ = w.Write(text) // nobody can be told of a connection that is gone
}
