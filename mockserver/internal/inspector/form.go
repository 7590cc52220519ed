package inspector

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A destinationForm contains the values of the settings form and their errors.
type destinationForm struct {
	New         bool
	ReadOnly    bool // whether it is defined in the configuration file
	Name        string
	AllSources  bool
	Sources     []choice
	Webhooks    [webhook.MaxEndpoints]webhookFields
	SecretDo    string
	TestType    string
	Errors      []fieldProblem
	typed       map[string]string    // typed values of optionFields, by name
	Test        []attemptLine        // responses to a test call
	TestProblem string               // why the test call was not sent
	Preview     *engine.Preview      // nil unless requested
	Destination tracking.Destination // typed settings
	Old         tracking.Destination // saved settings
}

// MoreOpen reports whether a field under More options has an error or a value other than the
// default.
func (f destinationForm) MoreOpen() bool {
	if slices.ContainsFunc(f.Errors, func(p fieldProblem) bool { return !slices.Contains(firstFields, p.Field) }) {
		return true
	}
	if len(f.Destination.Webhooks) > 1 || slices.ContainsFunc(f.Destination.Webhooks, func(e webhook.Endpoint) bool { return len(e.Headers) > 0 }) {
		return true
	}
	more := f.over(tracking.Destination{})
	more.Type, more.Webhooks, more.Endpoint, more.Region, more.WriteKey = "", nil, "", "", ""
	return !reflect.DeepEqual(more, tracking.Destination{})
}

// firstFields are the fields above More options.
var firstFields = []string{"name", "type", "url0", "endpoint", "region", "writeKey"}

// A setting is a row of the summary of a destination.
type setting struct{ Name, Value string }

// Summary returns the settings of a destination that cannot be edited. It omits most defaults.
func (f destinationForm) Summary() []setting {
	var all []setting
	add := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" {
			all = append(all, setting{name, text})
		}
	}
	d := f.Old
	if isRelay(&d) {
		add("URL", d.Endpoints()[0].URL)
	}
	for i, e := range engine.HideHeaders(d.Webhooks) {
		add(f.Label(fmt.Sprintf("url%d", i)), e.URL)
		add(f.Label(fmt.Sprintf("headers%d", i)), strings.TrimSpace(writeHeaders(e.Headers)))
	}
	add("Sources", cmp.Or(strings.Join(d.Sources, ", "), "all sources"))
	for _, field := range optionFields {
		value := field.value(&d)
		if field.Name == "signature" && f.Old.SharedSecret != "" {
			value = cmp.Or(value, string(webhook.SignatureService))
		}
		add(field.Label, field.text(value))
	}
	switch {
	case d.Disabled && d.KeepWhileDisabled:
		add("Enabled", "no: its calls wait")
	case d.Disabled:
		add("Enabled", "no: it receives no calls")
	case d.KeepWhileDisabled:
		add("While disabled", "calls wait")
	}
	return all
}

// A urlField is the form field of a webhook URL.
type urlField struct {
	Name, Label, URL string
	Problems         []fieldProblem
}

// URLField returns the field of the webhook URL with index i.
func (f destinationForm) URLField(i int) urlField {
	name := fmt.Sprintf("url%d", i)
	return urlField{name, f.Label(name), f.Webhooks[i].URL, f.Problems(name)}
}

// A choice is an option that can be selected.
type choice struct {
	Name    string
	Checked bool
}

// webhookFields are the form fields of one webhook.
type webhookFields struct {
	URL     string
	Headers string // one per line, in the format Name: value
	Used    bool
}

// A fieldProblem is an error of a form field.
type fieldProblem struct {
	Field string // name of the form field
	Label string
	Text  string
}

// formFields are the names and labels of the form fields, in order.
var formFields = func() [][2]string {
	fields := [][2]string{{"name", "Name"}, {"sources", "Sources"}, {"url0", "URL"}, {"headers0", "Headers"}}
	for i := 1; i < webhook.MaxEndpoints; i++ {
		fields = append(fields,
			[2]string{fmt.Sprintf("url%d", i), fmt.Sprintf("URL %d", i+1)},
			[2]string{fmt.Sprintf("headers%d", i), fmt.Sprintf("Headers of URL %d", i+1)})
	}
	fields = append(fields, [2]string{"writeKey", "Write key"}, [2]string{"sharedSecret", "Shared secret"}, [2]string{"previousSecret", "Previous secret"})
	for _, f := range optionFields {
		fields = append(fields, [2]string{f.Name, f.Label})
	}
	return fields
}()

// formIndex returns the position of a field in the form.
func formIndex(field string) int {
	return slices.IndexFunc(formFields, func(f [2]string) bool { return f[0] == field })
}

// Label returns the label of a form field. It returns the name of any other field.
func (destinationForm) Label(field string) string {
	if i := formIndex(field); i >= 0 {
		return formFields[i][1]
	}
	return field
}

// Problems returns the errors of a field.
func (f destinationForm) Problems(field string) []fieldProblem {
	var found []fieldProblem
	for _, p := range f.Errors {
		if p.Field == field {
			found = append(found, p)
		}
	}
	return found
}

// newForm returns a form with the settings of a destination.
func (in *Inspector) newForm(d tracking.Destination) destinationForm {
	f := destinationForm{
		Name: d.Name, AllSources: len(d.Sources) == 0, TestType: "track", Old: d, Destination: d,
		ReadOnly: in.c.Configured().Destination(d.Name) != nil,
	}
	for i, e := range engine.HideHeaders(d.Webhooks) {
		f.Webhooks[i] = webhookFields{URL: e.URL, Headers: writeHeaders(e.Headers), Used: true}
	}
	f.Webhooks[0].Used = true
	f.chooseSources(in.sourceNames(), d.Sources)
	return f
}

func (f *destinationForm) chooseSources(known, chosen []string) {
	for _, name := range chosen {
		if !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	for _, name := range known {
		f.Sources = append(f.Sources, choice{name, slices.Contains(chosen, name)})
	}
}

// readDestinationForm reads and validates a submitted form.
func (in *Inspector) readDestinationForm(v url.Values) destinationForm {
	f := destinationForm{
		New: v.Get("new") == "true", Name: strings.TrimSpace(v.Get("name")), AllSources: v.Get("allSources") != "false",
		SecretDo: v.Get("secretDo"), TestType: v.Get("testType"),
	}
	if !slices.Contains(fields.StoredTypes, f.TestType) {
		f.TestType = "track"
	}
	if !f.New {
		if d := in.c.Settings().Destination(f.Name); d != nil {
			f.Old = *d
		}
		if saved := in.newForm(f.Old); saved.ReadOnly { // the page has no fields for its settings
			saved.TestType = f.TestType
			return saved
		}
	}
	f.chooseSources(in.sourceNames(), v["sources"])
	f.Destination = tracking.Destination{Name: f.Name, Disabled: v.Get("enabled") != "true", KeepWhileDisabled: v.Get("keepWhileDisabled") == "true"}
	f.readSources(v["sources"])
	f.readOptions(v)
	places := f.readWebhooks(v)
	if isRelay(&f.Destination) {
		f.Destination.Webhooks = nil
		f.readKey(v.Get("writeKey"))
	} else {
		f.readSecrets(v.Get("sharedSecret"), v.Get("forgetPrevious") == "true")
	}
	f.addProblems(settings.CheckName(f.Name), places)
	f.addProblems(in.c.CheckDestination(&f.Old, &f.Destination), places)
	slices.SortStableFunc(f.Errors, func(a, b fieldProblem) int { return formIndex(a.Field) - formIndex(b.Field) })
	return f
}

func (f *destinationForm) readSources(chosen []string) {
	if f.AllSources {
		return
	}
	f.Destination.Sources = chosen
	if len(chosen) == 0 {
		f.fail("sources", "are empty: select at least one source, or all sources")
	}
}

// readOptions reads optionFields.
func (f *destinationForm) readOptions(v url.Values) {
	f.typed = map[string]string{}
	for _, field := range optionFields {
		value := strings.TrimSpace(v.Get(field.Name))
		f.typed[field.Name] = value
		if problem := field.set(&f.Destination, value); problem != "" {
			f.fail(field.Name, problem)
		}
	}
}

// readSecrets reads the typed secret or keeps the saved secret, which the form does not
// contain.
func (f *destinationForm) readSecrets(typed string, forgetPrevious bool) {
	d := &f.Destination
	switch {
	case f.Old.SharedSecret == "":
		d.SharedSecret = typed
	case f.SecretDo == "replace", f.SecretDo == "rotate":
		if d.SharedSecret = typed; typed == "" {
			f.fail("sharedSecret", "is empty: enter a new secret or keep the current one")
		}
		if f.SecretDo == "rotate" {
			d.PreviousSecret = f.Old.SharedSecret
		}
	case f.SecretDo == "remove":
	default:
		d.SharedSecret = f.Old.SharedSecret
		if !forgetPrevious {
			d.PreviousSecret = f.Old.PreviousSecret
		}
	}
}

// readKey reads the typed write key or keeps the saved write key, which the form does not contain.
func (f *destinationForm) readKey(typed string) {
	if f.Destination.WriteKey = typed; typed == "" {
		f.addProblems(engine.KeepWriteKey(&f.Destination, &f.Old), nil)
	}
}

// readWebhooks reads the webhooks and returns their positions in the form.
func (f *destinationForm) readWebhooks(v url.Values) (places []int) {
	for i := range f.Webhooks {
		w := webhookFields{URL: strings.TrimSpace(v.Get(fmt.Sprintf("url%d", i))), Headers: v.Get(fmt.Sprintf("headers%d", i))}
		headers, problem := readHeaders(w.Headers)
		if problem != "" {
			f.fail(fmt.Sprintf("headers%d", i), problem)
		}
		if w.Used = w.URL != "" || strings.TrimSpace(w.Headers) != "" || i == 0; w.URL != "" || len(headers) > 0 {
			f.Destination.Webhooks = append(f.Destination.Webhooks, webhook.Endpoint{URL: w.URL, Headers: headers})
			places = append(places, i)
		}
		f.Webhooks[i] = w
	}
	f.Destination.Webhooks = engine.RestoreHeaders(f.Destination.Webhooks, f.Old.Webhooks)
	f.addProblems(engine.StillHidden(f.Destination.Webhooks), places)
	return places
}

// over returns the settings of the form with the name and the state of d, which the form does not
// contain. The form has an input for every other field.
func (f *destinationForm) over(d tracking.Destination) tracking.Destination {
	all := f.Destination
	all.Name, all.Paused, all.GoneSince = d.Name, d.Paused, d.GoneSince
	return all
}

// addProblems adds validation errors to their form fields. places are the positions of the
// webhooks in the form.
func (f *destinationForm) addProblems(err error, places []int) {
	for _, p := range settings.FieldErrors(err) {
		field, problem := p.Field, p.Problem
		var i int
		switch n, _ := fmt.Sscanf(field, "webhooks[%d]", &i); {
		case n == 1 && i < len(places) && strings.Contains(field, "].headers"):
			_, header, _ := strings.Cut(field, "].headers")
			field, problem = fmt.Sprintf("headers%d", places[i]), strings.Trim(header, "[]")+" "+problem
		case n == 1 && i < len(places):
			field = fmt.Sprintf("url%d", places[i])
		case field == "webhooks":
			field = "url0"
		default:
			field, _, _ = strings.Cut(field, "[") // the form has one field for a list
		}
		f.fail(field, problem+": "+p.Hint)
	}
}

// fail adds an error to a form field.
func (f *destinationForm) fail(field, text string) {
	f.Errors = append(f.Errors, fieldProblem{field, f.Label(field), text})
}

func writeHeaders(headers map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(&out, "%s: %s\n", name, headers[name])
	}
	return out.String()
}

// readHeaders parses headers, one per line. Without headers, the map is nil, as in stored settings.
func readHeaders(text string) (headers map[string]string, problem string) {
	for n, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		_, twice := headers[name]
		switch {
		case !ok:
			return headers, fmt.Sprintf("have no colon in line %d: use the format Name: value", n+1)
		case twice:
			return headers, fmt.Sprintf("contain %s twice: remove one", name)
		}
		if headers == nil {
			headers = map[string]string{}
		}
		headers[name] = value
	}
	return headers, ""
}

// sendTest sends a test call to each URL.
func (f *destinationForm) sendTest(ctx context.Context, c *engine.Collector) {
	attempts, err := c.SendTest(ctx, f.Destination, f.TestType)
	if err != nil {
		f.TestProblem = err.Error()
	}
	for _, a := range attempts {
		f.Test = append(f.Test, newAttemptLine(a))
	}
}
