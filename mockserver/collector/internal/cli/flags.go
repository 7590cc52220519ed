package cli

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A parameter is a flag that sets a query parameter of the admin API.
type parameter struct {
	query    url.Values
	name     string
	repeated bool
	read     func(string) (string, error) // converts the value; may be nil
}

// Set implements pflag.Value.
func (p parameter) Set(value string) (err error) {
	if value == "" { // for example from an unset variable; without the filter, the command would select everything
		return errors.New("empty")
	}
	if p.read != nil {
		value, err = p.read(value)
	}
	switch {
	case err != nil:
		return err
	case p.repeated:
		p.query.Add(p.name, value)
	default:
		p.query.Set(p.name, value)
	}
	return nil
}

// Type implements pflag.Value.
func (parameter) Type() string { return "string" }

// String implements pflag.Value. Parameters have no defaults.
func (parameter) String() string { return "" }

// parameterFlag adds a flag for the query parameter with the same name. If values are given, the
// flag accepts only these values, and shells complete them.
func parameterFlag(cmd *cobra.Command, query url.Values, name, help string, values ...string) {
	p := parameter{query: query, name: name}
	if len(values) > 0 {
		p.read = oneOf("--"+name, values)
	}
	cmd.Flags().Var(p, name, help)
	if len(values) > 0 {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// oneOf returns a parser for a parameter that accepts only the given values.
func oneOf(name string, values []string) func(string) (string, error) {
	return func(value string) (string, error) {
		if !slices.Contains(values, value) {
			return "", usagef("invalid %s %s: use %s", name, text.Quote(text.MaxRepeated, value), strings.Join(values, ", "))
		}
		return value, nil
	}
}

// destinationFlag adds a flag for the name of a destination.
func (c *client) destinationFlag(cmd *cobra.Command, query url.Values, help string) {
	parameterFlag(cmd, query, "destination", help)
	_ = cmd.RegisterFlagCompletionFunc("destination", c.destinationNames())
}
