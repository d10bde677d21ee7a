package doctor

import (
	"context"
	"fmt"
	"time"
)

// serverChecks examine the server and this machine, as far as they concern the queues.
var serverChecks = []check{
	{
		code: "durability", severity: Critical,
		title: "settings that can lose committed transactions",
		meaning: "After a crash of the server or its machine, committed messages and jobs can be gone, or the " +
			"database can be corrupt.",
		remedy: "`ALTER SYSTEM SET … = on`, or `ALTER ROLE … RESET`",
		look:   durability,
	},
	{
		code: "session-settings", severity: Critical,
		title: "a stored setting with which SQL does not mean what it says",
		meaning: "A schema that `search_path` names before `pg_catalog` replaces PostgreSQL's functions, and with " +
			"`session_replication_role` = `replica` triggers do not run. Workers and commands refuse such a session.",
		remedy: "`ALTER ROLE … SET search_path = …` without `pg_catalog`, or `RESET session_replication_role`",
		look:   sessionSettings,
	},
	{
		code: "connections", severity: Critical,
		title:   "a connection limit that is nearly reached: of the server, the database or a role",
		from:    "nine tenths",
		meaning: "Processes that start, or that lost their connection, soon cannot connect.",
		remedy:  "end idle sessions, use a pooler, or raise the limit",
		look:    connections,
	},
	{
		code: "clock-skew", severity: Warning,
		title: "the clocks of the server and of this machine differ",
		from:  rough(defaultThresholds.Clock),
		meaning: "The database's clock decides about leases and due times. Times that programs compute themselves " +
			"are off by the difference.",
		remedy: "synchronise the clocks by NTP",
		look:   clockSkew,
	},
}

func connections(ctx context.Context, x *examination) (all []Finding, err error) {
	type limit struct {
		What, Name string
		Used, Most int64
	}
	list, err := listed[limit](ctx, x, "connections", "limits of connections")
	for _, l := range list {
		of := "the server"
		if l.Name != "" {
			of = l.What + " " + l.Name
		}
		f := Finding{
			Title:    fmt.Sprintf("%d of at most %d connections of %s are in use", l.Used, l.Most, of),
			Evidence: []Evidence{evidence("limit_of", l.What, "name", l.Name, "used", l.Used, "most", l.Most)},
		}
		switch l.What {
		case "role":
			f.Remedy = Remedy{Do: "End idle sessions of the role, or raise its limit.",
				SQL: []string{fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d;", quoted(l.Name), 2*l.Most)}}
		case "database":
			f.Remedy = Remedy{Do: "End idle sessions of the database, or raise its limit.",
				SQL: []string{fmt.Sprintf("ALTER DATABASE %s CONNECTION LIMIT %d;", quoted(l.Name), 2*l.Most)}}
		default:
			f.Remedy = Remedy{Do: "End idle sessions, or put a pooler in front. A higher max_connections needs a " +
				"restart, and memory.",
				SQL: []string{fmt.Sprintf("ALTER SYSTEM SET max_connections = %d;", 2*l.Most)}}
		}
		all = append(all, f)
	}
	return all, err
}

func clockSkew(_ context.Context, x *examination) ([]Finding, error) {
	skew, way := x.skew, "ahead of"
	if skew < 0 {
		skew, way = -skew, "behind"
	}
	if skew <= x.Thresholds.Clock+x.roundTrip {
		return nil, nil
	}
	return []Finding{{
		Title:    fmt.Sprintf("the clock of this machine is %s %s that of the server", skew.Round(time.Second), way),
		Evidence: []Evidence{evidence("skew_seconds", x.skew, "round_trip_seconds", x.roundTrip)},
		Remedy: Remedy{Do: "Synchronise the clocks of both machines by NTP, and see which is wrong:",
			Commands: []string{"timedatectl timesync-status || chronyc tracking"}},
	}}, nil
}
