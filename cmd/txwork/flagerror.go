package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wanted are the values that flags of a type take. Types of our own have errors that say so themselves.
var wanted = map[string]string{
	"int":      "a whole number",
	"int64":    "a whole number",
	"float64":  "a number such as 10 or 0.5",
	"duration": "a length of time such as 500ms, 30s or 2h",
	"bool":     "true or false",
}

// explainFlag words the error of a flag's value for people: what its parser says is about Go. If the value is from
// elsewhere than the command line, name says from where.
func explainFlag(name string, err error) error {
	var refused *pflag.InvalidValueError
	if !errors.As(err, &refused) {
		return err
	}
	f := refused.GetFlag()
	name = cmp.Or(name, "--"+f.Name)
	want, known := wanted[f.Value.Type()]
	switch {
	case known && errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s is %q, which is more than it can be", name, refused.GetValue())
	case known:
		return fmt.Errorf("%s is %q, it must be %s", name, refused.GetValue(), want)
	}
	return fmt.Errorf("%s is %q: %w", name, refused.GetValue(), refused.Unwrap())
}

// requiredFlags makes a command refuse a call without these flags, and say what each is for.
func requiredFlags(cmd *cobra.Command, names ...string) {
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if err := args(cmd, given); err != nil {
			return err
		}
		var missing []string
		for _, name := range names {
			if f := cmd.Flags().Lookup(name); !f.Changed {
				_, usage := pflag.UnquoteUsage(f)
				missing = append(missing, fmt.Sprintf("--%s is missing: %s", name, usage))
			}
		}
		if missing != nil {
			return errors.New(strings.Join(missing, "\n"))
		}
		return nil
	}
}

// noArguments refuses arguments of a command that takes flags only. cobra.NoArgs calls them unknown commands.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is one argument too many: %s takes flags only", args[0], cmd.CommandPath())
	}
	return nil
}
