package webui

import "net/http"

// Routes are the patterns that a dashboard answers.
func Routes(h http.Handler) []string { return h.(*handler).routes }
