package baseline

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStringsWithRecognizedFormats(t *testing.T) {
	for given, want := range map[string]string{
		"":                                     "",
		"Enterprise":                           "Enterprise",
		"9b2f6a6e-30a5-4b3f-8f5e-0b9b7a5d1c2e": "<uuid>",
		"9B2F6A6E-30A5-4B3F-8F5E-0B9B7A5D1C2E": "<uuid>",
		"order-9b2f6a6e-30a5-4b3f-8f5e-0b9b7a5d1c2e.pdf":            "order-<uuid>.pdf",
		"01JDMZ3V5W8X2Y4Z6A7B8C9D0E":                                "<ulid>",
		"msg_01jdmz3v5w8x2y4z6a7b8c9d0e":                            "msg_<ulid>",
		"2pWJ3tQnX7kLmN4vRbYcDfGhSzA":                               "<ksuid>",
		"9f86d081884c7d65":                                          "<hex>",
		"9F86D081884C7D659A2F":                                      "<hex>",
		"1234567890123456":                                          "<hex>",
		"sess_9f86d081884c7d659a2feaa0c55ad015":                     "sess_<hex>",
		"9f86d081884c7d6":                                           "9f86d081884c7d6", // 15 characters
		"internationalization":                                      "internationalization",
		"facade":                                                    "facade",
		"2026-11-26T14:42:17Z":                                      "<time>",
		"2026-11-26T14:42:17.123456789+01:00":                       "<time>",
		"2026-11-26 14:42":                                          "<time>",
		"from 2026-11-26T14:42:17.5Z to 2026-11-27T14:42:17Z":       "from <time> to <time>",
		"Thu, 26 Nov 2026 14:42:17 GMT":                             "<time>",
		"Thu Nov 26 2026 14:42:17 GMT+0100 (Central European Time)": "<time>",
		"2026-11-26":                                                "<date>",
		"report_2026-11-26_2.csv":                                   "report_<date>_2.csv",
		"2026-13-26":                                                "2026-13-26",
		"1732612345":                                                "<epoch s>",
		"1732612345.678":                                            "<epoch s>",
		"1732612345678":                                             "<epoch ms>",
		"e2e-1732612345678@example.com":                             "e2e-<epoch ms>@example.com",
		"1234567890":                                                "1234567890", // 2009
		"+491701234567":                                             "+491701234567",
		"4006381333931":                                             "4006381333931",
		"http://127.0.0.1:43721/cart?id=7":                          "http://127.0.0.1:<port>/cart?id=7",
		"https://example.com/cart":                                  "https://example.com/cart",
		"/tmp/TestUpload1234/001/report.csv":                        "<temp path>",
		"/private/var/folders/x1/T/a.txt":                           "<temp path>",
		`C:\Users\me\AppData\Local\Temp\a1\report.csv`:              "<temp path>",
		"open /tmp/x: no such file":                                 "open <temp path> no such file",
		"/templates/tmp":                                            "/templates/tmp",
		"1.2.3":                                                     "1.2.3",
		"<any>":                                                     "<string>",
		"<number: epoch s>":                                         "<string>",
		"<b>":                                                       "<b>",
	} {
		assert.Equal(t, want, normalizeString(given), given)
	}
}

func TestNumbersWithRecognizedFormats(t *testing.T) {
	for given, want := range map[string]string{
		"0": "", "25.5": "", "-1732612345": "", "999999999": "", "1234567890": "", "2100000000": "", "40063813339310": "", "1e400": "",
		"1732612345": "<number: epoch s>", "1732612345.678": "<number: epoch s>", "1.732612345e9": "<number: epoch s>", "1732612345678": "<number: epoch ms>",
		"1732612345678901": "<number: epoch us>", "1732612345678901234": "<number: epoch ns>",
	} {
		var want any = want
		if want == "" {
			want = json.Number(given)
		}
		assert.Equal(t, want, normalizeNumber(json.Number(given)), given)
	}
}

func TestVersionsAndAddressesInContext(t *testing.T) {
	for given, want := range map[string]string{
		"3.1.0":           "<version>",
		"v4.0.0-beta.1+7": "<version>",
		"app_1.2.3":       "app_<version>",
		"192.0.2.7":       "<ip>",
		"2001:db8::1":     "<ip>",
		"en-US":           "en-US",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0": "Mozilla/<version> (X11; Linux x86_64) AppleWebKit/<version> (KHTML, like Gecko) Chrome/<version>",
		"http://127.0.0.1:8080/v1.2/":   "http://127.0.0.1:<port>/<version>/",
		"2026-11-26T14:42:17.123+01:00": "<time>",
	} {
		f, err := Record([]json.RawMessage{[]byte(`{"type":"track","event":"E","userId":"u","properties":{"context":` + quoted(given) + `},"context":{"page":[{"in":` + quoted(given) + `}]}}`)})
		require.NoError(t, err)
		c := f.Users[0].Calls[0]
		assert.Equal(t, want, c["context"].(map[string]any)["page"].([]any)[0].(map[string]any)["in"], given)
		assert.Equal(t, normalizeString(given), c["properties"].(map[string]any)["context"])
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
