//go:build unix

package torture

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// need returns the first file that matches a pattern. If there is none, it installs the Debian package, if the run may.
func (l *lab) need(ctx context.Context, pack string, patterns ...string) (string, error) {
	if path := firstMatch(patterns); path != "" {
		return path, nil
	}
	switch _, err := exec.LookPath("apt-get"); {
	case !l.options.Install:
		return "", skip("%s is not installed: give --install, or install the package %s", patterns[0], pack)
	case err != nil || os.Geteuid() != 0:
		return "", skip("%s is not installed, and only root can install it, with apt-get", patterns[0])
	}
	if said, err := aptInstall(ctx, pack); err != nil {
		return "", skip("apt-get cannot install %s: %v: %s", pack, err, said)
	}
	if path := firstMatch(patterns); path != "" {
		return path, nil
	}
	return "", skip("the package %s has no %s", pack, patterns[0])
}

func firstMatch(patterns []string) string {
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// aptInstall starts none of the services that come with a package: Debian treats run level 1 as single-user mode.
func aptInstall(ctx context.Context, pack string) (said string, err error) {
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", pack}} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			return lines[len(lines)-1], err
		}
	}
	return "", nil
}
