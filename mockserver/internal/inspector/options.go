package inspector

import (
	"cmp"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// An optionField is a form field for one setting of a destination. The template option shows it.
type optionField struct {
	Name, Label            string      // Name is the name of the setting
	Choices                [][2]string // values and their texts, the default first; empty for typed text
	Placeholder, InputMode string      // of typed text
	MaxLength              int         // of typed text, in characters
	Rows                   int         // lines of typed text; 0 for an input with one line
	isList                 bool        // each line of typed text is a value
	Hint                   template.HTML
	// value returns the value in the form. It is empty for a default that the summary omits.
	value func(*tracking.Destination) string
	// set reads the value in the form. It returns a problem if it is malformed.
	set func(d *tracking.Destination, value string) (problem string)
}

// optionFields are the settings with one form field each. An option can depend on earlier options.
var optionFields = []optionField{
	lines("types.allow", "Include types", "track", func(d *tracking.Destination) *[]string { return &d.Types.Allow }),
	lines("types.deny", "Exclude types", "page", func(d *tracking.Destination) *[]string { return &d.Types.Deny }),
	lines("events.allow", "Include events", "Order *", func(d *tracking.Destination) *[]string { return &d.Events.Allow }),
	lines("events.deny", "Exclude events", "Order Tested", func(d *tracking.Destination) *[]string { return &d.Events.Deny }),
	lines("redact.remove", "Remove values", "context.ip", func(d *tracking.Destination) *[]string { return &d.Redact.Remove }),
	lines("redact.hash", "Hash values", "userId", func(d *tracking.Destination) *[]string { return &d.Redact.Hash }),
	lines("redact.mask", "Mask values", "properties.card", func(d *tracking.Destination) *[]string { return &d.Redact.Mask }),
	choose("type", "Type", func(d *tracking.Destination) *webhook.Type { return &d.Type },
		[2]string{"webhooks", "Webhooks"}, [2]string{"relay", "Relay to another collector"}),
	when(isRelay, parse("endpoint", "Endpoint", "https://api.segment.io", "url", func(d *tracking.Destination) *string { return &d.Endpoint },
		func(text string) (string, error) { return text, nil }, "").upTo(2000, 0)),
	when(isRelay, choose("region", "Region", func(d *tracking.Destination) *webhook.Region { return &d.Region },
		[2]string{"us", "US"}, [2]string{"eu", "EU"}).explained("The region of your Segment workspace. Ignored if you set an endpoint.")),
	when(hasWebhooks, choose("signature", "Signature", func(d *tracking.Destination) *webhook.Signature { return &d.Signature },
		[2]string{"service", "X-Signature: HMAC-SHA1 of the body, in hex"},
		[2]string{"standard", "Standard Webhooks: webhook-id, webhook-timestamp and webhook-signature"},
		[2]string{"both", "Both"}).explained("For Standard Webhooks, use <code>whsec_</code> followed by base64 (<code>echo whsec_$(openssl rand -base64 32)</code>), <code>whsk_</code> followed by an ed25519 key, or any string.")),
	when(hasWebhooks, choose("aliasFields", "Field names in alias calls", func(d *tracking.Destination) *webhook.AliasFields { return &d.AliasFields },
		[2]string{"spaced", "Previous ID and User ID (documented names)"}, [2]string{"camelCase", "previousId and userId"})),
	when(hasWebhooks, choose("traceContext", "Trace context", func(d *tracking.Destination) *webhook.TraceContext { return &d.TraceContext },
		[2]string{"parent", "traceparent only"}, [2]string{"all", "traceparent and tracestate"}, [2]string{"none", "Not sent"}).
		explained("Forwards the sender’s W3C trace context. A tracestate can identify users.")),
	choose("order", "Delivery order", func(d *tracking.Destination) *tracking.Order { return &d.Order },
		[2]string{"none", "Parallel"}, [2]string{"user", "In order for each user, one at a time"}).
		explained("A user is identified by userId or, without it, by anonymousId; alias calls link two IDs. The next two fields apply only to ordered delivery."),
	when((*tracking.Destination).IsOrdered, choose("onFailure", "If a call fails", func(d *tracking.Destination) *tracking.OnFailure { return &d.OnFailure },
		[2]string{"hold", "Later calls of the user wait"}, [2]string{"overtake", "Later calls overtake it"})),
	when((*tracking.Destination).IsOrdered, parse("giveUpAfter", "Maximum wait", "4h", "text", func(d *tracking.Destination) *time.Duration { return &d.GiveUpAfter },
		time.ParseDuration, "must be a duration such as 10m, or empty")),
	parse("maxPerSecond", "Maximum calls per second", "no limit", "decimal", func(d *tracking.Destination) *float64 { return &d.MaxPerSecond },
		func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }, "must be a number such as 50 or 0.5, or empty"),
	parse("concurrency", "Maximum concurrent requests", "as configured", "numeric", func(d *tracking.Destination) *int { return &d.Concurrency },
		strconv.Atoi, "must be a whole number such as 8, or empty").
		explained("The limit applies to each URL. With batches, the default is 4."),
	parse("batch.calls", "Calls per request", "1", "numeric", func(d *tracking.Destination) *int { return &d.Batch.Calls },
		strconv.Atoi, "must be a whole number such as 100, or empty").
		explained("With more than one, the body is a JSON array. The response can refuse single calls. A relay always sends batches, by default of up to 100 calls."),
	parse("batch.wait", "Maximum wait for more calls", "1s", "text", func(d *tracking.Destination) *time.Duration { return (*time.Duration)(&d.Batch.Wait) },
		time.ParseDuration, "must be a duration such as 1s, or empty"),
	parse("batch.bytes", "Maximum bytes per request", "500000", "numeric", func(d *tracking.Destination) *int { return &d.Batch.Bytes },
		strconv.Atoi, "must be a whole number such as 500000, or empty"),
	parse("transform", "jq program", "", "text", func(d *tracking.Destination) *string { return &d.Transform },
		func(text string) (string, error) { return strings.ReplaceAll(text, "\r\n", "\n"), nil }, "").upTo(16384, 4).
		explained("Optional. Changes the body before it is signed, for example <code>{text: \"\\(.userId) did \\(.event)\"}</code>. If the result is <code>empty</code>, the call is filtered."),
}

// choose returns a field that selects one of the values. The first is the default.
func choose[T ~string](name, label string, of func(*tracking.Destination) *T, choices ...[2]string) optionField {
	return optionField{
		Name: name, Label: label, Choices: choices,
		value: func(d *tracking.Destination) string { return string(*of(d)) },
		set: func(d *tracking.Destination, value string) string {
			if value == choices[0][0] {
				value = ""
			}
			*of(d) = T(value)
			return ""
		},
	}
}

// parse returns a field for a typed value. An empty field means the zero value.
func parse[T comparable](name, label, placeholder, mode string, of func(*tracking.Destination) *T, read func(string) (T, error), malformed string) optionField {
	return optionField{
		Name: name, Label: label, Placeholder: placeholder, InputMode: mode, MaxLength: 20,
		value: func(d *tracking.Destination) string {
			var zero T
			if *of(d) == zero {
				return ""
			}
			if number, ok := any(*of(d)).(float64); ok {
				return strconv.FormatFloat(number, 'f', -1, 64)
			}
			return fmt.Sprint(*of(d))
		},
		set: func(d *tracking.Destination, text string) string {
			if text == "" {
				return ""
			}
			value, err := read(text)
			if err != nil {
				return malformed
			}
			*of(d) = value
			return ""
		},
	}
}

// lines returns a field for a list with one value per line.
func lines(name, label, example string, of func(*tracking.Destination) *[]string) optionField {
	return optionField{
		Name: name, Label: label, Placeholder: example, MaxLength: 20_000, Rows: 2, isList: true,
		value: func(d *tracking.Destination) string { return strings.Join(*of(d), "\n") },
		set: func(d *tracking.Destination, text string) string {
			for line := range strings.Lines(text) {
				if value := strings.TrimSpace(line); value != "" {
					*of(d) = append(*of(d), value)
				}
			}
			return ""
		},
	}
}

// upTo returns a field for typed text with other limits.
func (f optionField) upTo(maxLength, rows int) optionField {
	f.MaxLength, f.Rows = maxLength, rows
	return f
}

// explained returns a field with a hint.
func (f optionField) explained(hint template.HTML) optionField {
	f.Hint = hint
	return f
}

// when returns a field that is ignored unless it applies to the destination.
func when(applies func(*tracking.Destination) bool, f optionField) optionField {
	set := f.set
	f.set = func(d *tracking.Destination, value string) string {
		if !applies(d) {
			return ""
		}
		return set(d, value)
	}
	return f
}

func isRelay(d *tracking.Destination) bool { return d.Type == webhook.TypeRelay }

func hasWebhooks(d *tracking.Destination) bool { return !isRelay(d) }

// text returns the text of a value.
func (f *optionField) text(value string) string {
	if f.isList {
		return strings.ReplaceAll(value, "\n", ", ")
	}
	for _, c := range f.Choices {
		if c[0] == value {
			return c[1]
		}
	}
	return value
}

// An option is an optionField with its value.
type option struct {
	optionField
	Value    string
	Problems []fieldProblem
}

// Option returns a field for the template.
func (f destinationForm) Option(name string) option {
	for _, field := range optionFields {
		if field.Name == name {
			return option{field, cmp.Or(f.typed[name], field.value(&f.Destination)), f.Problems(name)}
		}
	}
	panic("inspector: no option " + name)
}
