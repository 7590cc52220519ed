package tracking

import (
	"errors"
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Source is where calls come from: a program, a site or an app. It is known
// by its write key.
type Source struct {
	Name     string `json:"name"`
	WriteKey string `json:"writeKey"`
	// CallsPerSecond is how many calls it may send a second, on average. More are
	// answered 429. Defaults to Limits.CallsPerSecond.
	CallsPerSecond int `json:"callsPerSecond,omitempty"`
}

// A Destination forwards the calls of its sources to up to five webhooks.
type Destination struct {
	// Name tells it from the others.
	Name string `json:"name"`
	// Sources are the names of those it is connected to. None means all.
	Sources []string `json:"sources,omitempty"`
	// Disabled destinations get nothing.
	Disabled bool `json:"disabled,omitempty"`
	// Paused destinations make no attempts; their calls wait.
	Paused bool `json:"paused,omitempty"`
	// Settings are the webhooks, their headers, and the shared secret.
	webhook.Settings
}

// Settings are what can be changed while a collector runs.
type Settings struct {
	Sources      []Source
	Destinations []Destination
}

// Validate returns nil, or one [*webhook.FieldError] for each thing that is
// wrong, joined. Fields are named as in destinations[0].webhooks[1].url.
func (s Settings) Validate() error {
	return errors.Join(append(s.sourceProblems(), s.destinationProblems()...)...)
}

func (s Settings) sourceProblems() (problems []error) {
	add := func(i int, field, problem, mend string) {
		problems = append(problems, &webhook.FieldError{Field: fmt.Sprintf("sources[%d].%s", i, field), Problem: problem, Mend: mend})
	}
	names, keys := map[string]bool{}, map[string]string{}
	for i, source := range s.Sources {
		switch {
		case source.Name == "":
			add(i, "name", "is empty", "give the source a name")
		case names[source.Name]:
			add(i, "name", fmt.Sprintf("is %q again", source.Name), "give each source a name of its own")
		case text.IsTooLong(source.Name):
			add(i, "name", text.NameTooLong, "use a shorter one")
		}
		switch other, taken := keys[source.WriteKey]; {
		case source.WriteKey == "":
			add(i, "writeKey", "is empty", fmt.Sprintf("give source %q a write key", source.Name))
		case taken:
			add(i, "writeKey", fmt.Sprintf("is that of source %q too", other), "give each source a write key of its own")
		}
		if source.CallsPerSecond < 0 {
			add(i, "callsPerSecond", fmt.Sprintf("is %d", source.CallsPerSecond), "use a number above 0, or leave it out")
		}
		names[source.Name], keys[source.WriteKey] = true, source.Name
	}
	return problems
}

func (s Settings) destinationProblems() (problems []error) {
	taken := map[string]bool{}
	for i, d := range s.Destinations {
		at := fmt.Sprintf("destinations[%d].", i)
		switch {
		case d.Name == "":
			problems = append(problems, &webhook.FieldError{Field: at + "name", Problem: "is empty", Mend: "give the destination a name"})
		case taken[d.Name]:
			problems = append(problems, &webhook.FieldError{Field: at + "name", Problem: fmt.Sprintf("is %q again", d.Name), Mend: "give each destination a name of its own"})
		case text.IsTooLong(d.Name):
			problems = append(problems, &webhook.FieldError{Field: at + "name", Problem: text.NameTooLong, Mend: "use a shorter one"})
		}
		taken[d.Name] = true
		for _, err := range webhook.FieldErrors(d.Validate()) {
			err.Field = at + err.Field
			problems = append(problems, err)
		}
	}
	return problems
}
