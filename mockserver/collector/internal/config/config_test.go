package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/alerts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// testExpander returns an expander with two environment variables.
func testExpander(dir string) expander {
	variables := map[string]string{"SECRET": "from the environment", "EMPTY": ""}
	return expander{dir: dir, getenv: func(name string) (string, bool) { value, ok := variables[name]; return value, ok }}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func TestEverySetting(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "token", " let me in \n")
	write(t, dir, "key", "key from a file\n")
	got, err := parse("c.yaml", []byte(`
listen: :8080
data: queue
sync: 1s
strict: true
limits: {queue: 10GB, keep: 12h, bodyBytes: 1MiB, callBytes: 64KiB, batchCalls: 5_000, callsPerSecond: 100, concurrency: 16, dedupWindow: 48h, dedupCalls: 1000, history: 500}
httpConfig: '{"backoffConfig":{"maxRetryCount":3}}'
egress:
  allow: [10.1.0.0/16, "fd00::/8"]
  proxy: environment
admin: {listen: "127.0.0.1:9000", tokenFile: token, hosts: [collector.example.com]}
alerts: {webhook: https://example.com/alerts, after: 10m, format: slack, sharedSecret: "${SECRET}", signature: both, headers: {X-Team: ops}}
telemetry: {otlp: {endpoint: "https://otel.example.com:4317", protocol: grpc, headers: {X-Token: "${SECRET}"}, traces: {enabled: true, ratio: 0.25}, metrics: {enabled: false, interval: 30s}}}
log: {level: debug, format: json}
sources:
  - name: web
    writeKey: ${SECRET}
  - {name: app, writeKey: "a ${file:key} b $${kept}", callsPerSecond: 5}
destinations:
  - &crm
    name: crm
    type: webhooks
    sources: [web]
    enabled: true
    sharedSecret: 12345
    aliasFields: camelCase
    traceContext: all
    types: {deny: [page]}
    events: {allow: ["Order *", A], deny: [Order Tested]}
    maxPerSecond: 0.5
    concurrency: 8
    webhooks: [{url: https://example.com/hook, headers: {X-Team: growth, X-Number: 7}}]
  - <<: *crm
    name: copy
    enabled: false
`), testExpander(dir), noNames)
	require.NoError(t, err)
	yes, no, quarter := true, false, 0.25
	crm := tracking.Destination{
		Name: "crm", Sources: []string{"web"}, MaxPerSecond: 0.5, Concurrency: 8,
		Types: tracking.Filter{Deny: []string{"page"}}, Events: tracking.Filter{Allow: []string{"Order *", "A"}, Deny: []string{"Order Tested"}},
		Settings: webhook.Settings{
			Type: webhook.TypeWebhooks, SharedSecret: "12345", AliasFields: webhook.AliasCamelCase, TraceContext: webhook.TraceAll,
			Webhooks: []webhook.Endpoint{{URL: "https://example.com/hook", Headers: map[string]string{"X-Team": "growth", "X-Number": "7"}}},
		},
	}
	copied := crm
	copied.Name = "copy"
	want := &Config{
		Listen: ":8080", Data: filepath.Join(dir, "queue"), Sync: Sync(time.Second), Strict: true,
		Limits: Limits{
			Queue: 10e9, Keep: 12 * time.Hour, BodyBytes: 1 << 20, CallBytes: 64 << 10, BatchCalls: 5000, CallsPerSecond: 100,
			Concurrency: 16, DedupWindow: 48 * time.Hour, DedupCalls: 1000, History: 500,
		},
		HTTPConfig: JSONObject(`{"backoffConfig":{"maxRetryCount":3}}`),
		Egress:     Egress{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}, Proxy: "environment"},
		Admin:      Admin{Listen: "127.0.0.1:9000", TokenFile: filepath.Join(dir, "token"), Token: "let me in", Hosts: []string{"collector.example.com"}},
		Log:        Log{Level: "debug", Format: "json"},
		Alerts: &alerts.Config{
			Webhook: "https://example.com/alerts", After: 10 * time.Minute, Format: alerts.Slack,
			SharedSecret: "from the environment", Signature: "both", Headers: map[string]string{"X-Team": "ops"},
		},
		Telemetry: Telemetry{OTLP: &telemetry.Config{
			Endpoint: "https://otel.example.com:4317", Protocol: telemetry.GRPC, Headers: map[string]string{"X-Token": "from the environment"},
			Traces: telemetry.Traces{Enabled: &yes, Ratio: &quarter}, Metrics: telemetry.Metrics{Enabled: &no, Interval: 30 * time.Second},
		}},
		Sources: []Source{
			{Name: "web", WriteKey: "from the environment"},
			{Name: "app", WriteKey: "a key from a file b ${kept}", CallsPerSecond: 5},
		},
		Destinations: []Destination{{&yes, crm}, {&no, copied}},
	}
	assert.Equal(t, want, got)
	copied.Disabled = true
	assert.Equal(t, copied, got.Settings().Destinations[1])
}

// TestSettingReplacesMergedValue checks that the merge key << does not combine the parts of a setting.
func TestSettingReplacesMergedValue(t *testing.T) {
	got, err := parse("c.yaml", []byte(`
data: d
destinations:
  - &crm
    name: crm
    maxPerSecond: 5
    types: {deny: [page]}
    batch: {calls: 100, wait: 5s}
    webhooks: [&hook {url: https://example.com/hook, headers: {X-Team: growth, X-Number: 7}}]
  - <<: *crm
    name: copy
    types: {allow: [track]}
    batch: {calls: 10}
    webhooks: [{<<: *hook, headers: {X-Team: sales}}]
`), testExpander("/c"), noNames)
	require.NoError(t, err)
	merged := got.Destinations[1]
	assert.InDelta(t, 5, merged.MaxPerSecond, 0)
	assert.Equal(t, tracking.Filter{Allow: []string{"track"}}, merged.Types)
	assert.Equal(t, 10, merged.Batch.Calls)
	assert.Zero(t, merged.Batch.Wait)
	assert.Equal(t, []webhook.Endpoint{{URL: "https://example.com/hook", Headers: map[string]string{"X-Team": "sales"}}}, merged.Webhooks)
}

func TestProblems(t *testing.T) {
	const store = "data: d\n"
	for _, c := range []struct{ name, yaml, want string }{
		{"a time without an order", store + "destinations:\n  - name: d\n    giveUpAfter: 10m\n    webhooks: [{url: 'https://h/'}]", `c.yaml:4:5: destinations[0].giveUpAfter requires an order: set order to "user", or omit it`},
		{"nothing at all", "", `c.yaml: data is not set: set it to the directory of the queue, or set nats.url to store the queue on a cluster`},
		{"not YAML", store + "sources: [", `c.yaml:2:10: invalid YAML: sequence end token ']' not found`},
		{"a key twice", store + "data: e", `c.yaml:2:1: invalid YAML: mapping key "data" already defined at [1:1]`},
		{"two documents", store + "---\nlisten: :1", `c.yaml:3:7: a second YAML document starts here: use one document per file`},
		{"a list for a mapping", "- data", `c.yaml:1:1: must be a mapping, not a list: write each setting as name: value`},
		{"a typing error", store + "lisen: :8765", `c.yaml:2:1: lisen is not a setting: did you mean listen? Valid settings are admin, alerts, data, destinations, egress, httpConfig, limits, listen, log, nats, redactKey, sources, strict, sync, telemetry, tls`},
		{"a setting of another name", store + "sources: [{name: web, writeKey: k, rate: 3}]", `c.yaml:2:36: sources[0].rate is not a setting: valid settings are callsPerSecond, name, onViolation, plan, redact, violationsTo, writeKey`},
		{"an unknown key", store + "sources:\n  - name: web\n    secret: x\n    writeKey: y", `c.yaml:4:5: sources[0].secret is not a setting: valid settings are callsPerSecond, name, onViolation, plan, redact, violationsTo, writeKey`},
		{"a text for a list", store + "sources: web", `c.yaml:2:10: sources must be a list, not a single value: start each item with a hyphen`},
		{"a list for a text", store + "listen: [1]", `c.yaml:2:9: listen must be a string, not a list`},
		{"a text for a mapping", store + "limits: small", `c.yaml:2:9: limits must be a mapping, not a single value: write each setting as name: value`},
		{"a mapping for a size", store + "limits:\n  queue: {a: b}", `c.yaml:3:10: limits.queue must be a single value, not a mapping`},
		{"a mapping for a plan", store + "sources: [{name: web, writeKey: k, plan: {a: b}}]", `c.yaml:2:42: sources[0].plan must be a string (the path of a plan file), not a mapping`},
		{"no JSON", store + "httpConfig: x", `c.yaml:2:13: httpConfig is "x": use a JSON object in quotes, such as '{"backoffConfig":{"maxRetryCount":3}}'`},
		{"no JSON object", store + "httpConfig: '[]'", `c.yaml:2:13: httpConfig is "[]": use a JSON object in quotes, such as '{"backoffConfig":{"maxRetryCount":3}}'`},
		{"a size", store + "limits: {queue: 10 potatoes}", `c.yaml:2:17: limits.queue is "10 potatoes": use a size such as 512KB, 8GB or 8GiB`},
		{"a size below nothing", store + "limits: {queue: -1GB}", `c.yaml:2:17: limits.queue is "-1GB": use a size such as 512KB, 8GB or 8GiB`},
		{"a size without a unit", store + "limits: {queue: 8}", `c.yaml:2:10: limits.queue has no room for calls: use 1MiB or more, such as 8GiB`},
		{"a size beyond what is stored", store + "limits: {bodyBytes: 5MiB}", `c.yaml:2:10: limits.bodyBytes is too large: use at most 4MiB`},
		{"a time shorter than that of retries", store + "limits: {keep: 1h}", `c.yaml:2:10: limits.keep is 1h0m0s, but calls are retried for 4 hours: use 5h or more`},
		{"a number", store + "limits: {batchCalls: many}", `c.yaml:2:22: limits.batchCalls is "many": use a whole number above 0`},
		{"a duration", store + "limits: {dedupWindow: 1 day}", `c.yaml:2:23: limits.dedupWindow is "1 day": use a duration such as 90s, 15m or 24h`},
		{"a boolean", store + "strict: maybe", `c.yaml:2:9: strict is "maybe": use true or false`},
		{"sync", store + "sync: sometimes", `c.yaml:2:7: sync is "sometimes": use always, or the interval between syncs, such as 1s`},
		{"a network", store + "egress: {allow: [10.0.0.0]}", `c.yaml:2:18: egress.allow[0] is "10.0.0.0": use a network such as 10.1.0.0/16`},
		{"a proxy", store + "egress: {proxy: proxy.example.com}", `c.yaml:2:10: egress.proxy is not a proxy URL: use a URL such as http://proxy.example.com:3128, or environment to use HTTPS_PROXY`},
		{"a variable that is not set", store + "sources: [{name: web, writeKey: '${NONE}'}]", `c.yaml:2:33: sources[0].writeKey refers to the environment variable NONE, which is not set: set it, or use $${ for a literal ${`},
		{"a variable that is empty", store + "admin: {token: '${EMPTY}'}", `c.yaml:2:16: admin.token is empty because the variable or file it refers to is empty: set a value, or remove the setting`},
		{"an open brace", store + "sources: [{name: web, writeKey: 'a${NONE'}]", `c.yaml:2:33: sources[0].writeKey has ${ without a closing }: use ${NAME} for an environment variable, or $${ for a literal ${`},
		{"no name of a variable", store + "sources: [{name: web, writeKey: '${}'}]", `c.yaml:2:33: sources[0].writeKey has the invalid reference ${}: use ${NAME} for an environment variable, ${file:PATH} for a file, or $${ for a literal ${`},
		{"a secret's file", store + "sources: [{name: web, writeKey: '${file:none}'}]", `c.yaml:2:33: sources[0].writeKey cannot be read: open /c/none: no such file or directory`},
		{"no address", store + "listen: localhost", `c.yaml:2:1: listen is "localhost": use host:port such as 127.0.0.1:8765, or :8765 for all addresses`},
		{"no token", store + "listen: :8765", `c.yaml:2:1: listen is :8765, which other machines can reach, but the admin API has no token: set admin.tokenFile, or admin.listen to a loopback address such as 127.0.0.1:8766`},
		{"no token for a listener of its own", store + "admin: {listen: '10.0.0.1:80'}", `c.yaml:2:9: admin.listen is 10.0.0.1:80, which other machines can reach, but the admin API has no token: set admin.tokenFile, or admin.listen to a loopback address such as 127.0.0.1:8766`},
		{"a token that is soon guessed", store + "admin: {token: x}", `c.yaml:2:9: admin.token has fewer than 8 characters: use a random string, such as the output of openssl rand -hex 32`},
		{"a write key with a line break", store + "sources: [{name: web, writeKey: \"key\\n\"}]", `c.yaml:2:23: sources[0].writeKey begins or ends with white space: remove it; a value from a file may end with a line break`},
		{"a long value", store + "strict: " + strings.Repeat("a", 300), `c.yaml:2:9: strict is "` + strings.Repeat("a", 200) + `…": use true or false`},
		{"a long name", store + strings.Repeat("a", 300) + ": b", `c.yaml:2:1: ` + strings.Repeat("a", 200) + `… is not a setting: valid settings are admin, alerts, data, destinations, egress, httpConfig, limits, listen, log, nats, redactKey, sources, strict, sync, telemetry, tls`},
		{"a long reference", store + "listen: ${" + strings.Repeat("a", 300) + "}", `c.yaml:2:9: listen refers to the environment variable ` + strings.Repeat("a", 200) + `…, which is not set: set it, or use $${ for a literal ${`},
		{"a deep list", store + "egress: " + strings.Repeat("[", 100_000), `c.yaml:2:109: more than 100 nested levels`},
		{"a token with a byte order mark", store + "admin: {token: \"\\ufeffa-long-token\"}", `c.yaml:2:9: admin.token contains the invisible character U+FEFF: remove it, or type the value again`},
		{"a shared secret with a line break", store + "destinations: [{name: crm, webhooks: [{url: 'https://a.example.com'}], sharedSecret: \"hush\\r\"}]", `c.yaml:2:72: destinations[0].sharedSecret begins or ends with white space: remove it; a value from a file may end with a line break`},
		{"a blank shared secret", store + "destinations: [{name: crm, webhooks: [{url: 'https://a.example.com'}], sharedSecret: ' '}]", `c.yaml:2:72: destinations[0].sharedSecret begins or ends with white space: remove it; a value from a file may end with a line break`},
		{"a previous secret with an invisible character", store + "destinations: [{name: crm, webhooks: [{url: 'https://a.example.com'}], signature: standard, sharedSecret: hush, previousSecret: \"old\\u200b\"}]", `c.yaml:2:113: destinations[0].previousSecret contains the invisible character U+200B: remove it, or type the value again`},
		{"the example's write key", store + "sources: [{name: web, writeKey: change-me-to-a-long-random-text}]", `c.yaml:2:23: sources[0].writeKey is the placeholder from the example: use a random string, such as the output of openssl rand -hex 32`},
		{"a token of blanks", store + "admin: {token: ' '}", `c.yaml:2:9: admin.token is blank: use a random string, such as the output of openssl rand -hex 32`},
		{"a token's file", store + "admin: {tokenFile: none}", `c.yaml:2:9: admin.tokenFile cannot be read: open /c/none: no such file or directory: use a file that contains the token`},
		{"one address twice", store + "admin: {listen: '127.0.0.1:8765'}", `c.yaml:2:9: admin.listen is the same address as listen: use another port, or remove it to serve both on one port`},
		{"half a certificate", store + "tls: {certFile: a}", `c.yaml:2:1: tls sets only one of certFile and keyFile: set both or neither`},
		{"two stores", store + "nats: {url: 'nats://a'}", `c.yaml:1:1: data is set together with nats: use data for a queue on this machine, or nats for a queue on a cluster`},
		{"a cluster without a place", "nats: {replicas: 3}", `c.yaml:1:1: nats.url is not set: use one or more servers, such as nats://a:4222,nats://b:4222`},
		{"a server that is no URL", "nats: {url: 'nats://a, nats://user:pass%word@b'}", `c.yaml:1:8: nats.url contains an invalid server URL: use one or more servers, such as nats://a:4222,nats://b:4222`},
		{"a number of replicas", "nats: {url: 'nats://a', replicas: 2}", `c.yaml:1:25: nats.replicas is 2: use 1, 3 or 5`},
		{"a monitoring address that is no URL", "nats: {url: 'nats://a', monitor: 'http://a:8222, b:8222'}", `c.yaml:1:25: nats.monitor contains an invalid URL: use the monitoring URLs of the servers, such as http://a:8222,http://b:8222`},
		{"sync of a cluster", "nats: {url: 'nats://a'}\nsync: 1s", `c.yaml:2:1: sync is set together with nats: remove it; the servers of the cluster have their own sync_interval`},
		{"a log level", store + "log: {level: loud}", `c.yaml:2:7: log.level is "loud": use debug, info, warn or error`},
		{"how much of a trace", store + "destinations: [{name: crm, traceContext: full, webhooks: [{url: 'https://example.com/'}]}]", `c.yaml:2:28: destinations[0].traceContext is "full": use "parent", "all" or "none"`},
		{"the protocol of telemetry", store + "telemetry:\n  otlp:\n    protocol: http/json", `c.yaml:4:5: telemetry.otlp.protocol is "http/json": use grpc or http`},
		{"the endpoint of telemetry", store + "telemetry:\n  otlp:\n    endpoint: otel.example.com", `c.yaml:4:5: telemetry.otlp.endpoint is neither a URL nor host:port: use the address of the receiver, such as http://127.0.0.1:4318`},
		{"an endpoint of telemetry with a password", store + "telemetry:\n  otlp:\n    endpoint: https://me:secret@otel.example.com", `c.yaml:4:5: telemetry.otlp.endpoint is neither a URL nor host:port: use the address of the receiver, such as http://127.0.0.1:4318`},
		{"telemetry with and without TLS", store + "telemetry:\n  otlp:\n    endpoint: https://otel.example.com\n    insecure: true", `c.yaml:5:5: telemetry.otlp.insecure is true, but the endpoint uses https://: remove it, or use http://`},
		{"the ratio of traces", store + "telemetry:\n  otlp:\n    traces: {ratio: 10}", `c.yaml:4:14: telemetry.otlp.traces.ratio is 10: use a number from 0 to 1, such as 0.1 for 10 % of the traces`},
		{"the interval of metrics", store + "telemetry:\n  otlp:\n    metrics: {interval: 10ms}", `c.yaml:4:15: telemetry.otlp.metrics.interval is 10ms: use 1s or more`},
		{"a header of telemetry", store + "telemetry:\n  otlp:\n    headers: {a b: c}", `c.yaml:4:15: telemetry.otlp.headers["a b"] is not a valid header name: use letters, digits and hyphens`},
		{"alerts to nobody", store + "alerts: {after: 5m}", `c.yaml:2:1: alerts.webhook is not set: set it to the URL that receives alerts, or remove alerts`},
		{"the webhook of alerts", store + "alerts:\n  webhook: hooks.example.com", `c.yaml:3:3: alerts.webhook has no protocol: start it with https://hooks.example.com`},
		{"a header of alerts", store + "alerts:\n  webhook: https://h/\n  headers:\n    Host: x", `c.yaml:5:5: alerts.headers["Host"] is set by the collector: remove it`},
		{"the signature of alerts", store + "alerts:\n  webhook: https://h/\n  signature: sha512", `c.yaml:4:3: alerts.signature is "sha512": use "service", "standard" or "both"`},
		{"a signature of alerts without a secret", store + "alerts:\n  webhook: https://h/\n  signature: standard", `c.yaml:2:1: alerts.sharedSecret is empty: set one for the signature "standard", or use the signature "service"`},
		{"the format of alerts", store + "alerts:\n  webhook: https://h/\n  format: teams", `c.yaml:4:3: alerts.format is "teams": use json or slack`},
		{"alerts after no time", store + "alerts:\n  webhook: https://h/\n  after: 5", `c.yaml:4:10: alerts.after is "5": use a duration such as 90s, 15m or 24h`},
		{"alerts to a private network", store + "alerts:\n  webhook: http://10.0.0.1/", `c.yaml:3:3: alerts.webhook points to 10.0.0.1, which is not allowed: private network 10.0.0.0/8: use a public address, or, if the receiver is yours, set egress.allow: ["10.0.0.0/8"]`},
		{"a long name", store + "sources: [{name: " + strings.Repeat("é", 101) + ", writeKey: k}]", `c.yaml:2:12: sources[0].name has more than 100 characters: use 1 to 100 printable characters`},
		{"a name with a line break", store + "destinations: [{name: \"crm\\n\", webhooks: [{url: 'https://a'}]}]", `c.yaml:2:17: destinations[0].name contains an invisible character: use 1 to 100 printable characters`},
		{"a name twice", store + "sources: [{name: web, writeKey: a}, {name: web, writeKey: b}]", `c.yaml:2:38: sources[1].name duplicates "web": give each source a unique name`},
		{"a relay without a key", store + "destinations: [{name: d, type: relay}]", `c.yaml:2:16: destinations[0].writeKey is empty: set the write key of the source in the other collector`},
		{"a relay to a private address", store + "destinations: [{name: d, type: relay, writeKey: k, endpoint: 'http://10.0.0.1'}]", `c.yaml:2:52: destinations[0].endpoint points to 10.0.0.1, which is not allowed: private network 10.0.0.0/8: use a public address, or, if the receiver is yours, set egress.allow: ["10.0.0.0/8"]`},
		{"an unknown type", store + "destinations: [{name: d, type: mail, webhooks: [{url: 'https://a'}]}]", `c.yaml:2:26: destinations[0].type is "mail": use "webhooks" or "relay"`},
		{"an unknown source", store + "sources: [{name: web, writeKey: k}]\ndestinations: [{name: d, sources: [web, wep], webhooks: [{url: 'https://a'}]}]", `c.yaml:3:41: destinations[0].sources[1] is "wep", which is not a source: use the name of a source`},
		{"a URL", store + "destinations:\n  - name: d\n    webhooks:\n      - url: example.com", `c.yaml:5:9: destinations[0].webhooks[0].url has no protocol: start it with https://example.com`},
		{"six URLs", store + "destinations:\n- name: d\n  webhooks: [{url: 'https://a'}, {url: 'https://a'}, {url: 'https://a'}, {url: 'https://a'}, {url: 'https://a'}, {url: 'https://a'}]", `c.yaml:4:3: destinations[0].webhooks has 6 URLs: keep at most 5`},
		{"a header", store + "destinations:\n- name: d\n  webhooks:\n  - url: https://a\n    headers:\n      Host: b", `c.yaml:7:7: destinations[0].webhooks[0].headers["Host"] is set by the collector: remove it`},
		{"all at once", "listen: x\ndata: d\nsources: [{}]", `c.yaml:1:1: listen is "x": use host:port such as 127.0.0.1:8765, or :8765 for all addresses
c.yaml:3:11: sources[0].name is empty: use 1 to 100 printable characters
c.yaml:3:11: sources[0].writeKey is empty: give source "" a write key`},
		{"an alias without an anchor", store + "destinations:\n- name: d\n  sharedSecret: *hush\n  webhooks: [{url: 'https://a'}]", `c.yaml:4:17: the alias *hush has no anchor &hush: add the anchor, or write out the value`},
		{"a merge without an anchor", store + "limits: {<<: *hush}", `c.yaml:2:14: the alias *hush has no anchor &hush: add the anchor, or write out the value`},
		{"a repeated anchor", store + "sources: [{name: &n web, writeKey: &n web-key}]", `c.yaml:2:36: the anchor &n is defined twice: rename one of them`},
		{"UTF-16", "\xff\xfed\x00:\x00", `c.yaml: not UTF-8: save the file in this encoding`},
		{"Latin-1", store + "# \xe9", `c.yaml: not UTF-8: save the file in this encoding`},
		{"a byte order mark", "\uFEFF" + store, ``},
		{"an alias of itself", store + "sources: &a [*a]", `c.yaml:2:13: sources[0] must be a mapping, not a list: write each setting as name: value`},
		{"a merge of itself", store + "limits: &a {<<: *a, queue: 1GB}", ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse("c.yaml", []byte(c.yaml), testExpander("/c"), noNames)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Equal(t, c.want, err.Error())
		})
	}
}

// noNames is a resolver that finds no addresses.
func noNames(string) []netip.Addr { return nil }

func TestWebhooksNotAllowedByEgress(t *testing.T) {
	names := func(host string) []netip.Addr {
		return map[string][]netip.Addr{
			"crm.internal": {netip.MustParseAddr("10.1.2.3")},
			"both.example": {netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("93.184.216.34")},
		}[host]
	}
	const (
		loopback = `, which is not allowed: loopback network 127.0.0.0/8: use a public address, or, if the receiver is yours, set egress.allow: ["127.0.0.0/8"], or run in dev mode`
		private  = `points to 10.1.2.3, which is not allowed: private network 10.0.0.0/8: use a public address, or, if the receiver is yours, set egress.allow: ["10.0.0.0/8"]`
		metadata = `points to 169.254.169.254, which is not allowed: cloud metadata service 169.254.169.254/32: no setting allows it; use a different address`
	)
	for _, c := range []struct{ url, allow, want string }{
		{url: "http://127.0.0.1:8081/hook", want: "points to 127.0.0.1" + loopback},
		{url: "http://localhost:8081/hook", want: "points to 127.0.0.1" + loopback},
		{url: "http://app.LocalHost./hook", want: "points to 127.0.0.1" + loopback},
		{url: "http://0x7f.1/hook", want: "points to 127.0.0.1" + loopback},
		{url: "http://10.1.2.3/hook", want: private},
		{url: "http://crm.internal/hook", want: private},
		{url: "http://169.254.169.254/hook", want: metadata},
		{url: "http://metadata.google.internal/hook", want: metadata},
		{url: "http://169.254.169.254/hook", allow: "169.254.0.0/16", want: metadata},
		{url: "http://crm.internal/hook", allow: "10.1.0.0/16"},
		{url: "http://localhost/hook", allow: "127.0.0.0/8"},
		{url: "http://both.example/hook"},
		{url: "http://unknown.example/hook"},
	} {
		t.Run(c.url+c.allow, func(t *testing.T) {
			text := "data: d\ndestinations: [{name: d, webhooks: [{url: '" + c.url + "'}]}]\n"
			if c.allow != "" {
				text += "egress: {allow: [" + c.allow + "]}\n"
			}
			_, err := parse("c.yaml", []byte(text), testExpander("/c"), names)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, "c.yaml:2:38: destinations[0].webhooks[0].url "+c.want)
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("data: d\nsources: &a [{name: web, writeKey: '${SECRET}'}]\ndestinations: [{<<: *a, webhooks: [{url: 'https://a', headers: {A: b}}]}]")
	f.Add("limits: &a {<<: *a, queue: 1GB}\nsync: 1s\negress: {allow: [10.0.0.0/8]}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse("c.yaml", []byte(text), expander{dir: "/nowhere", getenv: func(string) (string, bool) { return "x", true }}, noNames)
		if (c == nil) != (err != nil) {
			t.Fatalf("%+v and %v", c, err)
		}
		if c != nil {
			require.NoError(t, c.Settings().Validate())
		}
	})
}

// TestReadableSecretsCauseWarnings checks that secrets in readable files cause warnings, also in the
// configuration file itself. Secrets in environment variables cause no warnings.
func TestReadableSecretsCauseWarnings(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"open": 0o644, "group": 0o640, "own": 0o600} {
		write(t, dir, name, "a-long-secret")
		require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	const destination = "data: d\ndestinations: [{name: crm, sharedSecret: '%s', webhooks: [{url: 'https://example.com/'}]}]\n"
	for _, c := range []struct {
		yaml string
		mode os.FileMode // mode of the configuration file
		want string      // files that other users can read
	}{
		{strings.ReplaceAll(destination, "%s", "${file:open}"), 0o644, "open"},
		{strings.ReplaceAll(destination, "%s", "${file:group}"), 0o644, ""},
		{strings.ReplaceAll(destination, "%s", "${file:own}"), 0o644, ""},
		{strings.ReplaceAll(destination, "%s", "${SECRET}"), 0o644, ""},
		{strings.ReplaceAll(destination, "%s", "in-clear-text"), 0o644, "c.yaml"},
		{strings.ReplaceAll(destination, "%s", "in-clear-text"), 0o640, ""},
		{"data: d\nadmin: {tokenFile: open}", 0o600, "open"},
		{"data: d\nadmin: {tokenFile: own}", 0o644, ""},
		{"data: d\nadmin: {token: in-clear-text}", 0o644, "c.yaml"},
		{"data: d\ndestinations: [{name: crm, webhooks: [{url: 'https://example.com/', headers: {authorization: Bearer x}}]}]", 0o644, "c.yaml"},
		{"data: d\ndestinations: [{name: crm, webhooks: [{url: 'https://example.com/', headers: {X-Team: growth}}]}]", 0o644, ""},
		{"data: d\nalerts: {webhook: 'https://example.com/', sharedSecret: in-clear-text}", 0o644, "c.yaml"},
		{"data: d\nalerts: {webhook: 'https://example.com/', headers: {Authorization: Bearer x}}", 0o644, "c.yaml"},
		{"data: d\nalerts: {webhook: 'https://example.com/who-knows-it-may-write', format: slack}", 0o644, "c.yaml"},
		{"data: d\nalerts: {webhook: 'https://example.com/', sharedSecret: '${SECRET}'}", 0o644, ""},
		{"data: d\ntelemetry: {otlp: {headers: {authorization: Bearer x}}}", 0o644, "c.yaml"},
		{"data: d\negress: {proxy: 'http://me:hush@proxy.example.com:3128'}", 0o644, "c.yaml"},
		{"data: d\negress: {proxy: 'http://me@proxy.example.com:3128'}", 0o644, ""},
		{"data: d\negress: {proxy: 'http://proxy.example.com:3128'}", 0o644, ""},
		{"\nnats: {url: 'nats://me:hush@a,nats://me:hush@b'}", 0o644, "c.yaml"},
		{"\nnats: {url: 'nats://token@a'}", 0o644, "c.yaml"},
	} {
		write(t, dir, "c.yaml", c.yaml)
		require.NoError(t, os.Chmod(filepath.Join(dir, "c.yaml"), c.mode))
		got, err := parse("c.yaml", []byte(c.yaml), testExpander(dir), noNames)
		require.NoError(t, err, c.yaml)
		var paths []string
		for _, w := range got.Warnings() {
			assert.Regexp(t, "^c.yaml:2:[0-9]+: ", w.Error())
			paths = append(paths, filepath.Base(strings.TrimPrefix(w.Hint, "chmod o-r ")))
		}
		assert.Equal(t, c.want, strings.Join(paths, " "), "%s in a file of mode %o", c.yaml, c.mode)
	}
}

// TestEverySecretInAFileCausesAWarning checks that each secret in a file causes a separate warning.
func TestEverySecretInAFileCausesAWarning(t *testing.T) {
	dir := t.TempDir()
	text := `data: d
admin: {token: in-clear-text}
destinations:
  - {name: a, sharedSecret: "${file:shared}", webhooks: [{url: "https://example.com/"}]}
  - {name: b, sharedSecret: "${file:shared}", webhooks: [{url: "https://example.com/", headers: {Authorization: Bearer x}}]}
`
	write(t, dir, "c.yaml", text)
	write(t, dir, "shared", "a-long-secret")
	for _, name := range []string{"c.yaml", "shared"} {
		require.NoError(t, os.Chmod(filepath.Join(dir, name), 0o644)) //nolint:gosec // what is warned of
	}
	got, err := parse("c.yaml", []byte(text), testExpander(dir), noNames)
	require.NoError(t, err)
	var fields []string
	for _, w := range got.Warnings() {
		fields = append(fields, w.Field+" "+filepath.Base(w.Hint))
	}
	assert.Equal(t, []string{
		"admin.token c.yaml", "destinations[0].sharedSecret shared", "destinations[1].sharedSecret shared", `destinations[1].webhooks[0].headers["Authorization"] c.yaml`,
	}, fields)
}

func TestPlansOfSources(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "plan.yaml", "plan: shop\ntrack:\n  E: {properties: {a: {type: string}}}\n")
	write(t, dir, "wrong.yaml", "plan: shop\ntrack:\n  E:\n    properties:\n      a: {typo: string}\n      b: {pattern: '('}\n")
	const head = "data: queue\nsources:\n"
	files := Files{}
	e := testExpander(dir)
	e.files = files
	c, err := parse("c.yaml", []byte(head+`  - {name: web, writeKey: a-write-key, plan: plan.yaml, onViolation: quarantine, violationsTo: told}
  - {name: app, writeKey: b-write-key, plan: plan.yaml}
  - {name: told, writeKey: c-write-key}
`), e, func(string) []netip.Addr { return nil })
	require.NoError(t, err)
	assert.Same(t, c.PlanOf(&c.Sources[0]), c.PlanOf(&c.Sources[1]), "the file is read once")
	assert.Equal(t, "shop", c.PlanOf(&c.Sources[0]).Name())
	assert.Nil(t, c.PlanOf(&c.Sources[2]))
	assert.Contains(t, files, filepath.Join(dir, "plan.yaml"))
	assert.Empty(t, c.Warnings())

	write(t, dir, "vague.json", `{"rules":[{"type":"TRACK","key":"E","jsonSchema":{"type":"object"}}]}`)
	c, err = parse("c.yaml", []byte(head+"  - {name: web, writeKey: a-write-key, plan: vague.json}\n"), testExpander(dir), func(string) []netip.Addr { return nil })
	require.NoError(t, err)
	require.Len(t, c.Warnings(), 1)
	assert.Equal(t, filepath.Join(dir, "vague.json")+`:1: track "E": constrains no field of a call, so it accepts every call: describe the properties under properties.properties`, c.Warnings()[0].Error())

	for _, c := range []struct{ source, want string }{
		{"plan: nothing.yaml", "c.yaml:3:40: sources[0].plan cannot be read: open " + filepath.Join(dir, "nothing.yaml") + ": no such file or directory: set it to the path of a plan file"},
		{"plan: wrong.yaml", filepath.Join(dir, "wrong.yaml") + `:5: track "E": unknown JSON Schema keyword "typo": did you mean "type"?`},
		{"onViolation: report", "c.yaml:3:40: sources[0].onViolation is set, but the source has no plan: set plan to the path of a plan file"},
		{"plan: plan.yaml, onViolation: drop", `c.yaml:3:57: sources[0].onViolation is "drop": use report, quarantine or reject`},
		{"plan: plan.yaml, violationsTo: nobody", `c.yaml:3:57: sources[0].violationsTo is "nobody", which is not a source: use the name of a source`},
		{"violationsTo: web", "c.yaml:3:40: sources[0].violationsTo is set, but the source has no plan: set plan to the path of a plan file"},
	} {
		_, err := parse("c.yaml", []byte(head+"  - {name: web, writeKey: a-write-key, "+c.source+"}\n"), testExpander(dir), func(string) []netip.Addr { return nil })
		require.Error(t, err, c.source)
		assert.Contains(t, err.Error(), c.want)
	}
}

// Aliases repeat values. Without a limit, a file of 20 KB takes minutes and gigabytes.
func TestRepeatedAliases(t *testing.T) {
	text := "data: /d\nsources:\n- &s {name: &n a, writeKey: b}\ndestinations:\n- &d {name: c, sources: &l [" + strings.Repeat("*n,", 2000) + "], types: {allow: *l, deny: *l}}\n" +
		strings.Repeat("- *d\n", 2000)
	_, err := parse("c.yaml", []byte(text), testExpander("/c"), noNames)
	assert.EqualError(t, err, "c.yaml: has more than 100000 values, including values that aliases repeat: use fewer aliases")
}

func TestLocalURL(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:80": "http://127.0.0.1:80", "[::]:80": "http://localhost:80", "0.0.0.0:80": "http://localhost:80", "[::1]:80": "http://[::1]:80",
		":80": "http://localhost:80", "collector.example.com:80": "http://collector.example.com:80",
	} {
		assert.Equal(t, want, LocalURL("http", address))
	}
}
