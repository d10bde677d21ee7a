package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/migrations"
)

func newRolesCommand(a *app) *cobra.Command {
	var tables []string
	options := migrations.RoleOptions{}
	cmd := newCommand("roles [--prefix PREFIX] [--domain DOMAIN]... [--table NAME[:keys][:join][:topics]]...",
		"Print the roles of the database and their rights as SQL", noArguments)
	flags := cmd.Flags()
	flags.StringVar(&options.Prefix, "prefix", migrations.DefaultRolePrefix, "what the names of the roles begin with")
	domainFlag(cmd, &options.Domains, "a `domain` that the schema has (default: all that it has, or without a database all but log)")
	flags.StringArrayVar(&tables, "table", nil, "a table of your own, as `name[:keys][:join][:topics]`, in the place "+
		"of those that the migrations make; repeat for more")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		options.Schema = a.schema
		return a.printRoles(cmd.Context(), options, tables)
	}
	return cmd
}

func (a *app) printRoles(ctx context.Context, o migrations.RoleOptions, tables []string) (err error) {
	if err := a.checkSchema(); err != nil {
		return err
	}
	if o.Prefix == "" {
		return usagef("--prefix is empty")
	}
	if o.Tables, err = parseRoleTables(tables); err != nil {
		return err
	}
	text, err := migrations.Roles(o)
	if err != nil {
		return conclude(err)
	}
	narrowed, err := a.rolesOfSchema(ctx, o)
	if err != nil {
		return err
	}
	if len(narrowed.Domains) != len(o.Domains) {
		text, err = migrations.Roles(narrowed)
	}
	return a.printSQL(text, err)
}

func parseRoleTables(texts []string) ([]migrations.RoleTable, error) {
	tables := make([]migrations.RoleTable, len(texts))
	for i, text := range texts {
		parts := strings.Split(text, ":")
		tables[i].Name = parts[0]
		for _, part := range parts[1:] {
			switch part {
			case "keys":
				tables[i].Keyed = true
			case "join":
				tables[i].Join = true
			case "topics":
				tables[i].Topics = true
			default:
				return nil, usagef("--table %q: want NAME and its qualities keys, join and topics, as in "+
					"NAME:keys:topics", text)
			}
		}
	}
	return tables, nil
}
