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

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/alerts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/jq"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/http1"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// check reports invalid and contradictory values, and reads the files that the settings name.
func (c *Config) check(d *decoder, lookup settings.Resolver) {
	var wrong report = func(field, problem, hint string) { d.wrong(d.place(field), field, problem, hint) }
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
	problems := slices.Concat(c.Settings().HashProblems([]byte(c.RedactKey)), c.Settings().TransformProblems(jq.Compile))
	wrong.all("", append(problems, c.Settings().Validate())...)
	for i, source := range c.Sources {
		if p := settings.CheckKey(fmt.Sprintf("sources[%d].writeKey", i), source.WriteKey); p != nil {
			wrong(p.Field, p.Problem, p.Hint)
		}
	}
}

// all reports the [*webhook.FieldError]s that errs join. prefix is added to their fields.
func (wrong report) all(prefix string, errs ...error) {
	for _, p := range settings.FieldErrors(errors.Join(errs...)) {
		wrong(prefix+p.Field, p.Problem, p.Hint)
	}
}

func (c *Config) checkListeners(wrong report) {
	validAddress := checkAddress(wrong, "listen", c.Listen)
	if c.Admin.TokenFile != "" {
		if c.Admin.Token != "" {
			wrong("admin.token", "is set together with admin.tokenFile", "remove one of them")
		}
		token, err := readSecret(c.Admin.TokenFile)
		if err != nil {
			wrong("admin.tokenFile", err.Error(), "use a file that contains the token")
		} else if strings.TrimSpace(token) == "" {
			wrong("admin.tokenFile", "is empty", "write a token to the file, for example with openssl rand -hex 32")
		}
		c.Admin.Token = token
	}
	// Clients send the token in a header, which is compared without surrounding spaces.
	if token := strings.TrimSpace(c.Admin.Token); token == "" && c.Admin.Token != "" {
		wrong("admin.token", "is blank", "use a random string, such as the output of openssl rand -hex 32")
	} else {
		c.Admin.Token = token
	}
	field, address := "listen", c.Listen
	if c.Admin.Listen != "" {
		field, address = "admin.listen", c.Admin.Listen
		validAddress = checkAddress(wrong, field, address)
		if c.Admin.Listen == c.Listen {
			wrong(field, "is the same address as listen", "use another port, or remove it to serve both on one port")
		}
	}
	if validAddress && c.Admin.Token == "" && !Loopback(address) {
		wrong(field, fmt.Sprintf("is %s, which other machines can reach, but the admin API has no token", address),
			"set admin.tokenFile, or admin.listen to a loopback address such as 127.0.0.1:8766")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		wrong("tls", "sets only one of certFile and keyFile", "set both or neither")
	} else if c.TLS.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile); err != nil {
			wrong("tls", "cannot be used: "+err.Error(), "use PEM files with a certificate and its key")
		}
	}
}

// checkAddress reports an invalid listener address, and returns whether the address is valid.
func checkAddress(wrong report, field, address string) bool {
	if !IsAddress(address) {
		wrong(field, "is "+text.Quote(text.MaxRepeated, address), "use host:port such as 127.0.0.1:8765, or :8765 for all addresses")
		return false
	}
	return true
}

// IsAddress reports whether address is a valid listen address: host:port, where the host may be
// empty.
func IsAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	n, bad := strconv.Atoi(port)
	return err == nil && bad == nil && n >= 0 && n <= 65535
}

// Loopback reports whether a listener accepts connections only from this machine.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// LocalURL returns the URL of a listener for programs on this machine.
func LocalURL(scheme, address string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && (host == "" || net.ParseIP(host).IsUnspecified()) {
		address = net.JoinHostPort("localhost", port) // resolves to the IP version that the collector listens on
	}
	return scheme + "://" + address
}

func (c *Config) checkStore(wrong report) {
	switch {
	case c.NATS == nil && c.Data == "":
		wrong("data", "is not set", "set it to the directory of the queue, or set nats.url to store the queue on a cluster")
	case c.NATS == nil:
	case c.Data != "":
		wrong("data", "is set together with nats", "use data for a queue on this machine, or nats for a queue on a cluster")
	case c.NATS.URL == "":
		wrong("nats.url", "is not set", serversHint)
	case !areURLs(c.NATS.URL, "nats://", "nats", "tls", "ws", "wss"):
		wrong("nats.url", "contains an invalid server URL", serversHint) // the value may contain a password
	case c.NATS.Monitor != "" && !areURLs(c.NATS.Monitor, "", "http", "https"):
		wrong("nats.monitor", "contains an invalid URL", "use the monitoring URLs of the servers, such as http://a:8222,http://b:8222") // the value may contain a password
	case c.Sync != 0:
		wrong("sync", "is set together with nats", "remove it; the servers of the cluster have their own sync_interval")
	case (c.NATS.CertFile == "") != (c.NATS.KeyFile == ""):
		wrong("nats", "sets only one of certFile and keyFile", "set both or neither")
	default:
		c.checkNATSFiles(wrong)
	}
	if n := c.NATS; n != nil && !slices.Contains([]int{0, 1, 3, 5}, n.Replicas) {
		wrong("nats.replicas", fmt.Sprintf("is %d", n.Replicas), "use 1, 3 or 5")
	}
}

const serversHint = "use one or more servers, such as nats://a:4222,nats://b:4222"

// areURLs reports whether each of the comma-separated URLs has a host and one of the protocols. scheme is
// the default of the part before the host.
func areURLs(urls, scheme string, protocols ...string) bool {
	for address := range strings.SplitSeq(urls, ",") {
		if address = strings.TrimSpace(address); !strings.Contains(address, "://") {
			address = scheme + address
		}
		if !isURL(address, protocols...) {
			return false
		}
	}
	return true
}

// isURL reports whether text is a URL that has a host and one of the protocols.
func isURL(text string, protocols ...string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && slices.Contains(protocols, u.Scheme)
}

const (
	// maxBody is the maximum size of a stored call, including the context of its batch.
	maxBody = 4 << 20
	// minQueue exceeds the size of an empty queue. A number without a unit is a number of bytes.
	minQueue = 1 << 20
	// minKeep exceeds the four hours of retries.
	minKeep = 5 * time.Hour
)

func (c *Config) checkLimits(wrong report) {
	if c.Limits.BodyBytes > maxBody {
		wrong("limits.bodyBytes", "is too large", "use at most 4MiB")
	}
	if queue := c.Limits.Queue; queue > 0 && queue < minQueue {
		wrong("limits.queue", "has no room for calls", "use 1MiB or more, such as 8GiB")
	}
	if keep := c.Limits.Keep; keep > 0 && keep < minKeep {
		wrong("limits.keep", fmt.Sprintf("is %v, but calls are retried for 4 hours", keep), "use 5h or more")
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
			wrong(field, "cannot be read: "+err.Error(), "use an existing file")
		}
	}
}

func (c *Config) checkEgress(wrong report) {
	if p := c.Egress.Proxy; p != "" && p != ProxyEnvironment && !isURL(p, "http", "https", "socks5") {
		wrong("egress.proxy", "is not a proxy URL", "use a URL such as http://proxy.example.com:3128, or environment to use HTTPS_PROXY")
	}
	if c.Egress.CAFile != "" {
		if err := checkCertificates(c.Egress.CAFile); err != nil {
			wrong("egress.caFile", err.Error(), "use a PEM file with certificates")
		}
	}
}

// ProxyEnvironment is the value of egress.proxy that selects the proxy set by HTTPS_PROXY.
const ProxyEnvironment = "environment"

func checkCertificates(path string) error {
	pem, err := ReadFile(path, maxFile)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return errors.New("contains no certificate")
	}
	return nil
}

func (c *Config) checkLog(wrong report) {
	wrong.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	wrong.oneOf("log.format", c.Log.Format, "text", "json")
}

// oneOf reports a problem if the value is neither empty nor allowed.
func (wrong report) oneOf(field, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		wrong(field, "is "+text.Quote(text.MaxRepeated, value), "use "+text.Alternatives(allowed))
	}
}

func (c *Config) checkAlerts(wrong report, lookup settings.Resolver) {
	if c.Alerts == nil {
		return
	}
	wrong.oneOf("alerts.format", c.Alerts.Format, alerts.JSON, alerts.Slack)
	if c.Alerts.Webhook == "" {
		wrong("alerts.webhook", "is not set", "set it to the URL that receives alerts, or remove alerts")
		return
	}
	as := c.Alerts.Settings()
	for _, p := range settings.FieldErrors(errors.Join(as.Validate(), settings.CheckReachable(c.policy(), &as, nil, lookup))) {
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
	wrong.oneOf("telemetry.otlp.protocol", o.Protocol, telemetry.GRPC, telemetry.HTTP)
	if o.Endpoint != "" && !isOTLPEndpoint(o.Endpoint) {
		wrong("telemetry.otlp.endpoint", "is neither a URL nor host:port", "use the address of the receiver, such as http://127.0.0.1:4318") // the value may contain a password
	}
	if o.Insecure && strings.HasPrefix(o.Endpoint, "https://") {
		wrong("telemetry.otlp.insecure", "is true, but the endpoint uses https://", "remove it, or use http://")
	}
	if r := o.Traces.Ratio; r != nil && !(*r >= 0 && *r <= 1) {
		wrong("telemetry.otlp.traces.ratio", fmt.Sprintf("is %v", *r), "use a number from 0 to 1, such as 0.1 for 10 % of the traces")
	}
	if i := o.Metrics.Interval; i != 0 && i < time.Second {
		wrong("telemetry.otlp.metrics.interval", fmt.Sprintf("is %v", i), "use 1s or more")
	}
	for name, value := range o.Headers {
		field := fmt.Sprintf("telemetry.otlp.headers[%q]", name)
		if !http1.IsToken(name) {
			wrong(field, "is not a valid header name", "use letters, digits and hyphens")
		}
		if strings.IndexFunc(value, http1.IsControl) >= 0 {
			wrong(field, "has a control character in its value", "use only printable characters")
		}
	}
}

// isOTLPEndpoint reports whether text is a URL without credentials, or host:port.
func isOTLPEndpoint(text string) bool {
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		return err == nil && isURL(text, "http", "https") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	}
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.Atoi(port)
	return err == nil && bad == nil && n > 0 && n <= 65535 && host != "" && !strings.ContainsAny(host, "/@? ")
}

// checkDestinations checks the settings that exist only in configuration files.
func (c *Config) checkDestinations(wrong report) {
	for i, d := range c.Destinations {
		at := fmt.Sprintf("destinations[%d]", i)
		for n, name := range d.Sources {
			if !slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Name == name }) {
				wrong(fmt.Sprintf("%s.sources[%d]", at, n), "is "+text.Quote(text.MaxRepeated, name)+", which is not a source", "use the name of a source")
			}
		}
	}
}

// checkReachable reports webhooks that egress does not allow.
func (c *Config) checkReachable(wrong report, lookup settings.Resolver) {
	for i, d := range c.Settings().Destinations {
		wrong.all(fmt.Sprintf("destinations[%d].", i), settings.CheckReachable(c.policy(), &d.Settings, nil, lookup))
	}
}

func (c *Config) policy() webhook.Policy { return webhook.Policy{Allow: c.Egress.Allow} }
