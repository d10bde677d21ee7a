package pgschema

import (
	"fmt"
	"net/url"
	"strings"
)

// withSearchPath returns connection with the schema as the search_path of every
// session. It uses the startup parameter "options", which pgx and libpq both
// know. Schema must need no quoting.
func withSearchPath(connection, schema string) (string, error) {
	option := "-csearch_path=" + schema
	if !strings.Contains(connection, "://") {
		// In the keyword/value format, the last occurrence of a keyword counts.
		return connection + " options='" + option + "'", nil
	}
	u, err := url.Parse(connection)
	if err != nil {
		return "", fmt.Errorf("parse the connection URL: %w", err)
	}
	query := u.Query()
	query.Set("options", strings.TrimSpace(query.Get("options")+" "+option))
	// libpq does not accept a plus sign for a space.
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u.String(), nil
}
