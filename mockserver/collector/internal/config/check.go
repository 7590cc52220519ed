package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/httpcheck"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// check looks for what is wrong with values that are well formed, and reads the
// files that they name.
func (c *Config) check(d *decoder, lookup settings.Resolver) {
	wrong := func(field, wrong, hint string) { d.wrong(d.place(field), field, wrong, hint) }
	c.checkListeners(wrong)
	c.checkSecrets(d, wrong)
	c.checkStore(wrong)
	c.checkLimits(wrong)
	c.checkEgress(wrong)
	c.checkLog(wrong)
	c.checkPlans(wrong)
	c.checkDestinations(wrong)
	c.checkAlerts(wrong, lookup)
	c.checkOTLP(wrong)
	c.checkReachable(wrong, lookup)
	for _, p := range settings.FieldErrors(c.Settings().Validate()) {
		wrong(p.Field, p.Problem, p.Hint)
	}
	for i, source := range c.Sources {
		if p := settings.CheckKey(fmt.Sprintf("sources[%d].writeKey", i), source.WriteKey); p != nil {
			wrong(p.Field, p.Problem, p.Hint)
		}
	}
}

func (c *Config) checkListeners(wrong report) {
	right := checkAddress(wrong, "listen", c.Listen)
	if c.Admin.TokenFile != "" {
		if c.Admin.Token != "" {
			wrong("admin.token", "is set, and so is admin.tokenFile", "keep one of them")
		}
		token, err := readSecret(c.Admin.TokenFile)
		if err != nil {
			wrong("admin.tokenFile", err.Error(), "name a file with the token")
		} else if strings.TrimSpace(token) == "" {
			wrong("admin.tokenFile", "is an empty file", "write a token into it, such as openssl rand -hex 32 makes")
		}
		c.Admin.Token = token
	}
	// Blanks around it would never match: those around what a request bears do not count.
	if token := strings.TrimSpace(c.Admin.Token); token == "" && c.Admin.Token != "" {
		wrong("admin.token", "has only blanks", "use a text such as openssl rand -hex 32 makes")
	} else {
		c.Admin.Token = token
	}
	field, address := "listen", c.Listen
	if c.Admin.Listen != "" {
		field, address = "admin.listen", c.Admin.Listen
		right = checkAddress(wrong, field, address)
		if c.Admin.Listen == c.Listen {
			wrong(field, "is the address of listen too", "use another port, or leave it out to have both on one")
		}
	}
	if right && c.Admin.Token == "" && !Loopback(address) {
		wrong(field, fmt.Sprintf("is %s, which other machines can reach, and the admin API there has no token", address),
			"set admin.tokenFile, or admin.listen to a loopback address such as 127.0.0.1:8766")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		wrong("tls", "has one of certFile and keyFile", "set both or none")
	} else if c.TLS.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile); err != nil {
			wrong("tls", "cannot be used: "+err.Error(), "name a certificate and its key in PEM form")
		}
	}
}

// checkAddress checks the address of a listener, and reports whether it is right.
func checkAddress(wrong report, field, address string) bool {
	_, port, err := net.SplitHostPort(address)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		wrong(field, fmt.Sprintf("is %q", address), "use host:port such as 127.0.0.1:8765, or :8765 for all addresses")
		return false
	}
	return true
}

// Loopback reports whether only this machine can reach a listener.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *Config) checkStore(wrong report) {
	switch {
	case c.NATS == nil && c.Data == "":
		wrong("data", "is not set", "name the directory of the queue, or the cluster that keeps it in nats.url")
	case c.NATS == nil:
	case c.Data != "":
		wrong("data", "is set, and so is nats", "keep data for a queue on this machine, or nats for one on a cluster")
	case c.NATS.URL == "":
		wrong("nats.url", "is not set", mendServers)
	case !areServers(c.NATS.URL):
		wrong("nats.url", "has a server that is no URL", mendServers) // which may hold a password
	case !areMonitors(c.NATS.Monitor):
		wrong("nats.monitor", "has an address that is no URL", "give those at which the servers are monitored, such as http://a:8222,http://b:8222") // which may hold a password
	case c.Sync != 0:
		wrong("sync", "is set, and so is nats", "leave it out: servers of the cluster have their own sync_interval")
	case (c.NATS.CertFile == "") != (c.NATS.KeyFile == ""):
		wrong("nats", "has one of certFile and keyFile", "set both or none")
	default:
		c.checkNATSFiles(wrong)
	}
	if n := c.NATS; n != nil && !slices.Contains([]int{0, 1, 3, 5}, n.Replicas) {
		wrong("nats.replicas", fmt.Sprintf("is %d", n.Replicas), "use 1, 3 or 5")
	}
}

const mendServers = "give one or more servers, such as nats://a:4222,nats://b:4222"

// areServers reports whether each address can be connected to.
func areServers(urls string) bool {
	for server := range strings.SplitSeq(urls, ",") {
		if server = strings.TrimSpace(server); !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		if !isURL(server, "nats", "tls", "ws", "wss") {
			return false
		}
	}
	return true
}

// areMonitors reports whether each monitoring address can be asked.
func areMonitors(urls string) bool {
	for address := range strings.SplitSeq(urls, ",") {
		if urls != "" && !isURL(strings.TrimSpace(address), "http", "https") {
			return false
		}
	}
	return true
}

// isURL reports whether a text names a host, and one of the protocols.
func isURL(text string, protocols ...string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && slices.Contains(protocols, u.Scheme)
}

const (
	// maxBody is how large a call may be that is stored, with the context of its
	// batch.
	maxBody = 4 << 20
	// minKeep is longer than calls are tried again.
	minKeep = 5 * time.Hour
)

func (c *Config) checkLimits(wrong report) {
	if c.Limits.BodyBytes > maxBody {
		wrong("limits.bodyBytes", "is more than can be stored as one", "use at most 4MiB")
	}
	if keep := time.Duration(c.Limits.Keep); keep > 0 && keep < minKeep {
		wrong("limits.keep", fmt.Sprintf("is %v, and calls are tried again for 4 hours", keep), "use 5h or more")
	}
}

func (c *Config) checkNATSFiles(wrong report) {
	for field, path := range map[string]string{
		"nats.credentials": c.NATS.Credentials, "nats.caFile": c.NATS.CAFile,
		"nats.certFile": c.NATS.CertFile, "nats.keyFile": c.NATS.KeyFile,
	} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			wrong(field, "cannot be read: "+err.Error(), "name a file that is there")
		}
	}
}

func (c *Config) checkEgress(wrong report) {
	if p := c.Egress.Proxy; p != "" && p != ProxyEnvironment && !isURL(p, "http", "https", "socks5") {
		wrong("egress.proxy", "is no URL of a proxy", "use one such as http://proxy.example.com:3128, or environment for that of HTTPS_PROXY")
	}
	if c.Egress.CAFile != "" {
		if err := checkCertificates(c.Egress.CAFile); err != nil {
			wrong("egress.caFile", err.Error(), "name a file with certificates in PEM form")
		}
	}
}

// ProxyEnvironment is the value of egress.proxy that stands for the proxy that
// the environment names.
const ProxyEnvironment = "environment"

func checkCertificates(path string) error {
	pem, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return errors.New("holds no certificate")
	}
	return nil
}

func (c *Config) checkLog(wrong report) {
	if levels := []string{"", "debug", "info", "warn", "error"}; !slices.Contains(levels, c.Log.Level) {
		wrong("log.level", fmt.Sprintf("is %q", c.Log.Level), "use debug, info, warn or error")
	}
	if formats := []string{"", "text", "json"}; !slices.Contains(formats, c.Log.Format) {
		wrong("log.format", fmt.Sprintf("is %q", c.Log.Format), "use text or json")
	}
}

func (c *Config) checkAlerts(wrong report, lookup settings.Resolver) {
	if c.Alerts == nil {
		return
	}
	if formats := []string{"", AlertsJSON, AlertsSlack}; !slices.Contains(formats, c.Alerts.Format) {
		wrong("alerts.format", fmt.Sprintf("is %q", c.Alerts.Format), "use json or slack")
	}
	if c.Alerts.Webhook == "" {
		wrong("alerts.webhook", "is not set", "give the URL that is told when something is wrong, or leave out alerts")
		return
	}
	as := c.Alerts.Settings()
	for _, p := range settings.FieldErrors(errors.Join(as.Validate(), settings.CheckReachable(c.policy(), as.Webhooks, lookup))) {
		field := p.Field
		if rest, ok := strings.CutPrefix(field, "webhooks[0]."); ok {
			field = rest
		}
		if field == "url" {
			field = "webhook"
		}
		wrong("alerts."+field, p.Problem, p.Hint)
	}
}

func (c *Config) checkOTLP(wrong report) {
	o := c.Telemetry.OTLP
	if o == nil {
		return
	}
	if protocols := []string{"", OTLPOverGRPC, OTLPOverHTTP}; !slices.Contains(protocols, o.Protocol) {
		wrong("telemetry.otlp.protocol", fmt.Sprintf("is %q", o.Protocol), "use grpc or http")
	}
	if o.Endpoint != "" && !isOTLPEndpoint(o.Endpoint) {
		wrong("telemetry.otlp.endpoint", "is neither a URL nor host:port", "give where the receiver listens, such as http://127.0.0.1:4318") // which may hold a password
	}
	if o.Insecure && strings.HasPrefix(o.Endpoint, "https://") {
		wrong("telemetry.otlp.insecure", "is true, and the endpoint begins with https://", "leave it out, or use http://")
	}
	if r := o.Traces.Ratio; r != nil && !(*r >= 0 && *r <= 1) {
		wrong("telemetry.otlp.traces.ratio", fmt.Sprintf("is %v", *r), "use a number from 0 to 1, such as 0.1 for one trace of ten")
	}
	if i := time.Duration(o.Metrics.Interval); i != 0 && i < time.Second {
		wrong("telemetry.otlp.metrics.interval", fmt.Sprintf("is %v", i), "use 1s or more")
	}
	for name, value := range o.Headers {
		field := fmt.Sprintf("telemetry.otlp.headers[%q]", name)
		if !httpcheck.IsToken(name) {
			wrong(field, "is no header name", "use letters, digits and hyphens")
		}
		if strings.IndexFunc(value, httpcheck.IsControl) >= 0 {
			wrong(field, "has a control character in its value", "keep the value on one line of printable characters")
		}
	}
}

// isOTLPEndpoint reports whether a text is a URL without credentials, or host:port.
func isOTLPEndpoint(text string) bool {
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		return err == nil && isURL(text, "http", "https") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	}
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.Atoi(port)
	return err == nil && bad == nil && n > 0 && n <= 65535 && host != "" && !strings.ContainsAny(host, "/@? ")
}

// checkDestinations checks what only a file can get wrong about them.
func (c *Config) checkDestinations(wrong report) {
	for i, d := range c.Destinations {
		at := fmt.Sprintf("destinations[%d]", i)
		if d.Type != "" && d.Type != "webhooks" {
			wrong(at+".type", fmt.Sprintf("is %q", d.Type), "use webhooks")
		}
		for n, name := range d.Sources {
			if !slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Name == name }) {
				wrong(fmt.Sprintf("%s.sources[%d]", at, n), fmt.Sprintf("is %q, which is no source", name), "name one of sources")
			}
		}
	}
}

// checkReachable looks for webhooks to which egress allows no connection.
func (c *Config) checkReachable(wrong report, lookup settings.Resolver) {
	for i, d := range c.Settings().Destinations {
		for _, p := range settings.FieldErrors(settings.CheckReachable(c.policy(), d.Webhooks, lookup)) {
			wrong(fmt.Sprintf("destinations[%d].%s", i, p.Field), p.Problem, p.Hint)
		}
	}
}

func (c *Config) policy() webhook.Policy { return webhook.Policy{Allow: c.Egress.Allow} }
