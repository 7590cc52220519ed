package cli

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout limits the wait for the collector while a shell completes a word.
const completionTimeout = 3 * time.Second

// completion returns a function that completes words with a list of the admin API: the field list of
// the response to path. word returns a word and its description, which may be empty.
func completion[T any](c *client, path, list string, word func(T) (word, description string)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		found, err := get[map[string]json.RawMessage](ctx, c, path)
		var items []T
		if err == nil {
			err = json.Unmarshal(found.read[list], &items)
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var words []cobra.Completion
		for _, item := range items {
			text, description := word(item)
			if text == "" || text != plain(text) { // a shell cannot insert control characters
				continue
			}
			if description != "" {
				text = cobra.CompletionWithDesc(text, plain(description))
			}
			if !slices.Contains(words, text) {
				words = append(words, text)
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// onlyFirst completes only the first argument.
func onlyFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, word)
	}
}

// A named is a source or a destination.
type named struct{ Name string }

func nameOf(n named) (word, description string) { return n.Name, "" }

// sourceNames completes names of sources.
func (c *client) sourceNames() cobra.CompletionFunc {
	return completion(c, "/sources", "sources", nameOf)
}

// destinationNames completes names of destinations.
func (c *client) destinationNames() cobra.CompletionFunc {
	return completion(c, "/destinations", "destinations", nameOf)
}

// eventNames completes names of events, pages and screens.
func (c *client) eventNames() cobra.CompletionFunc {
	type summary struct{ Type, Event string }
	return completion(c, "/events", "events", func(s summary) (word, description string) { return s.Event, s.Type })
}

// messageIDs completes the messageIds of the newest calls.
func (c *client) messageIDs() cobra.CompletionFunc {
	return completion(c, "/calls?limit=50", "calls", func(found call) (word, description string) {
		return found.MessageID, found.Type + " " + found.title()
	})
}
