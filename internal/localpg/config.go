//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeConfig writes the postgresql.conf that the supervisor starts the server
// with, in place of the one initdb writes.
func (s *Server) writeConfig(o Options) error {
	settings := defaultSettings(s.dir, o.Durable)
	maps.Copy(settings, o.Settings)
	file := filepath.Join(s.dir, "postgresql.conf")
	if err := os.WriteFile(file, []byte(formatSettings(settings)), 0o644); err != nil {
		return fmt.Errorf("localpg: configuration: %w", err)
	}
	// Others cannot enter the directory, and the server may run as another user than this process.
	return os.Chmod(file, 0o644)
}

func defaultSettings(dir string, durable bool) map[string]string {
	settings := map[string]string{
		"listen_addresses":        "",
		"unix_socket_directories": dir,
		"port":                    "5432",
		"max_connections":         "200",
		"shared_buffers":          "128MB",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
	}
	if !durable {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
		settings["shared_preload_libraries"] = "plpgsql" // otherwise every session would load it
	}
	return settings
}

func formatSettings(settings map[string]string) string {
	quote := strings.NewReplacer(`'`, `''`, `\`, `\\`, "\n", `\n`)
	var conf strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, quote.Replace(settings[name]))
	}
	return conf.String()
}
