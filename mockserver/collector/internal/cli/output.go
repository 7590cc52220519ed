package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// An output is the name of an output format: a table, or a data format for scripts.
type output string

var outputs = []string{"table", "json", "jsonl", "yaml"}

// addOutputTo adds the flags that select the output format.
func (o *output) addOutputTo(cmd *cobra.Command) {
	*o = "table"
	flags := cmd.Flags()
	flags.VarP(o, "output", "o", "the output `format`: table, or for scripts json, jsonl (one object per line) or yaml")
	flags.BoolFunc("json", "same as --output json", func(value string) error {
		on, err := strconv.ParseBool(value)
		if on {
			*o = "json"
		}
		return err
	})
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
}

// Set implements pflag.Value.
func (o *output) Set(value string) error {
	known, err := oneOf("--output", outputs)(value)
	*o = output(known)
	return err
}

// Type implements pflag.Value.
func (*output) Type() string { return "format" }

// String implements pflag.Value.
func (o *output) String() string { return string(*o) }

// data reports whether the format is a data format for scripts.
func (o *output) data() bool { return *o != "table" && *o != "" }

// write calls print if the format is a data format. Otherwise it prints the output of text.
func (o *output) write(cmd *cobra.Command, v any, list string, text func(out *printer)) error {
	out := cmd.OutOrStdout()
	if o.data() {
		return o.print(out, v, list)
	}
	p := printer{columns: columnsOf(out)}
	text(&p)
	_, err := p.WriteTo(out)
	return err
}

// A printer collects text to print.
type printer struct {
	bytes.Buffer
	columns int // width of the terminal; 0 for no limit
}

// print prints a value, or a raw response, as data. In the format jsonl, it prints each element of the
// field list on a line. If list is empty, it prints the value on one line.
func (o *output) print(out io.Writer, v any, list string) error {
	data := text.PlainJSON(text.JSON(v, ""))
	switch *o {
	case "jsonl":
		return printLines(out, data, list)
	case "yaml":
		converted, err := yaml.JSONToYAML(data)
		if err == nil {
			_, err = out.Write(converted)
		}
		return err
	}
	return writeJSON(out, data)
}

// printLines prints each element of the field list on its own line. data must be compact JSON.
func printLines(out io.Writer, data []byte, list string) error {
	lines := []json.RawMessage{data}
	var members map[string]json.RawMessage
	if list != "" && json.Unmarshal(data, &members) == nil && members[list] != nil {
		lines = nil
		if err := json.Unmarshal(members[list], &lines); err != nil {
			return err
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// withField returns object with an additional first field. object must have at least one field.
func withField(name string, value, object json.RawMessage) json.RawMessage {
	return fmt.Appendf(nil, `{%q:%s,%s`, name, value, object[len("{"):])
}

// plain escapes control characters in text from senders and receivers.
func plain(s string) string { return text.Plain(s) }

// plainLines is like plain, but keeps line breaks.
func plainLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = plain(lines[i])
	}
	return strings.Join(lines, "\n")
}
