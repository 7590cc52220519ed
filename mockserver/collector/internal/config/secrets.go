package config

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/alerts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
)

const (
	// placeholder is the prefix of the public secrets in the example.
	placeholder = "change-me"
	// minToken is the minimum length of an admin token.
	minToken = 8
	// minRedactKey is the minimum length of the key for hashes: with a short key, hashes of IDs could
	// be reversed by trying keys.
	minRedactKey = 16
)

// A secret is the value of a setting that must stay secret.
type secret struct {
	field, value string
	file         string // path of the file that contains the secret; empty for the configuration file
}

// secrets returns all secrets that are set.
func (c *Config) secrets() []secret {
	all := []secret{{"admin.token", c.Admin.Token, ""}}
	if c.Admin.TokenFile != "" {
		all = []secret{{"admin.tokenFile", c.Admin.Token, c.Admin.TokenFile}}
	}
	all = append(all, secret{"redactKey", c.RedactKey, ""})
	for i, d := range c.Destinations {
		at := fmt.Sprintf("destinations[%d]", i)
		all = append(all, secret{at + ".sharedSecret", d.SharedSecret, ""}, secret{at + ".previousSecret", d.PreviousSecret, ""}, secret{at + ".writeKey", d.WriteKey, ""})
		for n, w := range d.Webhooks {
			all = append(all, headerSecrets(fmt.Sprintf("%s.webhooks[%d]", at, n), w.Headers)...)
		}
	}
	if a := c.Alerts; a != nil {
		all = append(append(all, secret{"alerts.sharedSecret", a.SharedSecret, ""}), headerSecrets("alerts", a.Headers)...)
		if a.Format == alerts.Slack { // Slack accepts messages from anyone who knows the URL
			all = append(all, secret{"alerts.webhook", a.Webhook, ""})
		}
	}
	if o := c.Telemetry.OTLP; o != nil {
		all = append(all, headerSecrets("telemetry.otlp", o.Headers)...)
	}
	return slices.DeleteFunc(all, func(s secret) bool { return s.value == "" })
}

// headerSecrets returns the secrets in the headers of a webhook.
func headerSecrets(at string, headers map[string]string) (all []secret) {
	for name, value := range headers {
		if strings.EqualFold(name, "Authorization") {
			all = append(all, secret{fmt.Sprintf("%s.headers[%q]", at, name), value, ""})
		}
	}
	return all
}

// checkSecrets reports secrets that are easy to guess or contain invisible characters, and
// warns about secrets that all users of the machine can read.
func (c *Config) checkSecrets(d *decoder, wrong report) {
	const hint = "use a random string, such as the output of openssl rand -hex 32"
	for i, s := range c.Sources {
		if strings.HasPrefix(s.WriteKey, placeholder) {
			wrong(fmt.Sprintf("sources[%d].writeKey", i), "is the placeholder from the example", hint)
		}
	}
	warn := func(field, path string) {
		if othersCanRead(path) {
			d.warn(field, fmt.Sprintf("is in %s, which every user of this machine can read", path), "chmod o-r "+path)
		}
	}
	warnAll := func(s secret) {
		for _, path := range d.filesOf(s) {
			warn(s.field, path)
		}
	}
	for _, s := range c.secrets() {
		switch isToken := strings.HasPrefix(s.field, "admin."); {
		case isToken && strings.TrimSpace(s.value) == "": // reported by checkListeners
		case strings.HasPrefix(s.value, placeholder):
			wrong(s.field, "is the placeholder from the example", hint)
		case s.field == "redactKey" && len(s.value) < minRedactKey:
			wrong(s.field, fmt.Sprintf("has fewer than %d characters", minRedactKey), hint)
		case isToken && len(s.value) < minToken:
			wrong(s.field, fmt.Sprintf("has fewer than %d characters", minToken), hint)
		default:
			if p := settings.CheckSecret(s.field, s.value); p != nil {
				wrong(p.Field, p.Problem, p.Hint)
			}
		}
		warnAll(s)
	}
	warn("tls.keyFile", c.TLS.KeyFile)
	if proxy, err := url.Parse(c.Egress.Proxy); err == nil {
		if password, _ := proxy.User.Password(); password != "" {
			warnAll(secret{field: "egress.proxy"})
		}
	}
	if c.NATS != nil {
		if strings.Contains(c.NATS.URL, "@") { // the URL contains a password or a token
			warnAll(secret{field: "nats.url"})
		}
		warn("nats.credentials", c.NATS.Credentials)
		warn("nats.keyFile", c.NATS.KeyFile)
	}
}

// filesOf returns the files that contain a secret.
func (d *decoder) filesOf(s secret) (paths []string) {
	if s.file != "" {
		return []string{s.file}
	}
	text := d.raw[s.field]
	if !strings.Contains(text, "${") {
		return []string{d.path}
	}
	for _, part := range strings.Split(text, "${file:")[1:] {
		path, _, _ := strings.Cut(part, "}")
		paths = append(paths, absolute(d.dir, path))
	}
	return paths
}

// othersCanRead reports whether users outside the file's group can read it.
func othersCanRead(path string) bool {
	if path == "" || runtime.GOOS == "windows" { // file modes on Windows do not contain this information
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode()&fs.FileMode(0o004) != 0
}
