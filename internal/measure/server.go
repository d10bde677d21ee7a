package measure

import (
	"context"
	"maps"

	"github.com/txwork/txwork/internal/localpg"
)

// Settings are those of the server of every benchmark: a small one, on which checkpoints are not frequent, as they
// would be with the defaults. Its commits are durable.
var Settings = map[string]string{"max_wal_size": "4GB", "shared_buffers": "512MB", "synchronous_commit": "on"}

// Start starts a server with [Settings] and others, from the binaries in a directory or, if it is "", from those that
// are found.
func Start(ctx context.Context, others map[string]string, binaries string) (*localpg.Server, error) {
	settings := maps.Clone(Settings)
	maps.Copy(settings, others)
	return localpg.Start(ctx, localpg.Options{Durable: true, Settings: settings, BinDir: binaries})
}
