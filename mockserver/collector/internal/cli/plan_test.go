package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

const shopPlan = `plan: shop
track:
  Order Completed:
    properties:
      orderId:  {type: string, required: true}
      total:    {type: number, minimum: 0, required: true}
      currency: {type: string, enum: [EUR, USD]}
    additionalProperties: false
  Cart Emptied:
`

const (
	goodOrder = `{"type":"track","event":"Order Completed","messageId":"good","properties":{"orderId":"7","total":1,"currency":"EUR"}}` + "\n"
	badOrder  = `{"type":"track","event":"Order Completed","messageId":"bad","properties":{"orderId":7,"currency":"eur","oderId":"7"}}` + "\n"
	misnamed  = `{"type":"track","event":"order_completed"}` + "\n"
)

// TestPlanCheckReadsOutputOfCalls checks that collector plan check accepts the output of collector
// calls.
func TestPlanCheckReadsOutputOfCalls(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{AnyWriteKey: true})
	t.Setenv("COLLECTOR_URL", srv.URL)
	for _, properties := range []string{`{"orderId":"7","total":1}`, `{"orderId":7,"total":1}`} {
		_, errOut, code := run(t, "send", "track", "--event", "Order Completed", "--user-id", "u", "--properties", properties)
		require.Zero(t, code, errOut)
	}
	rejected, err := srv.Client().Post(srv.URL+"/v1/track", "application/json", strings.NewReader(`{"type":"track","writeKey":"k","event":"Order Completed"}`))
	require.NoError(t, err)
	require.NoError(t, rejected.Body.Close())
	_, err = srv.Wait(t.Context(), 2)
	require.NoError(t, err)
	printed := func(args ...string) string {
		out, errOut, code := run(t, append([]string{"calls", "-o", "jsonl"}, args...)...)
		require.Zero(t, code, errOut)
		return out
	}
	inDirectory(t, map[string]string{"plan.yaml": shopPlan})

	out, errOut, code := runWith(t, printed(), "plan", "check", "plan.yaml")
	assert.Equal(t, 1, code, errOut)
	assert.Contains(t, out, "1 of 2 calls violates plan.yaml\n  track \"Order Completed\"\n    plan.yaml:5: /properties/orderId is 7, a number; expected a string (at standard input:1)\n")

	out, errOut, code = runWith(t, printed("--state", "rejected"), "plan", "check", "plan.yaml")
	assert.Equal(t, 1, code, errOut)
	assert.Contains(t, out, "/properties/orderId is missing")

	out, errOut, code = runWith(t, printed(), "plan", "infer")
	assert.Zero(t, code, errOut)
	assert.Contains(t, out, "Order Completed: # 2 calls")

	_, errOut, code = runWith(t, `{"kind":"call","ref":"a","type":"track","title":"Order Completed"}`, "plan", "check", "plan.yaml")
	assert.Equal(t, 2, code)
	assert.Equal(t, "collector: standard input: line 1 is activity without properties: use the output of collector calls --output jsonl without --follow\n", errOut)
}

// inDirectory changes to a new directory that contains the given files.
func inDirectory(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

// runWith runs the command with standard input.
func runWith(t *testing.T, in string, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(t.Context(), args, strings.NewReader(in), &o, &e)
	return o.String(), e.String(), code
}

func TestPlanCommands(t *testing.T) {
	newer := strings.NewReplacer("currency: {type: string, enum: [EUR, USD]}", "currency: {type: string, enum: [EUR, GBP], required: true}", "  Cart Emptied:\n", "").Replace(shopPlan)
	goldens, err := filepath.Abs("testdata")
	require.NoError(t, err)
	inDirectory(t, map[string]string{
		"plan.yaml": shopPlan, "newer.yaml": newer, "broken.yaml": "plan: x\ntrak: {}\n",
		"calls.jsonl": goodOrder + "\n" + badOrder + `{"type":"alias"}` + "\n" + badOrder + misnamed + "no call\n",
		"vague.json":  `{"name":"shop","rules":[{"type":"TRACK","key":"Cart Emptied","jsonSchema":{"type":"object"}}]}`,
		"array.json":  " [" + strings.ReplaceAll(strings.TrimSpace(goodOrder+badOrder), "\n", ",") + "]",
	})
	for _, c := range []struct {
		name, in string
		args     []string
		code     int
	}{
		{"plan-check-good", goodOrder, []string{"check", "plan.yaml"}, 0},
		{"plan-check-bad", "", []string{"check", "plan.yaml", "calls.jsonl"}, 1},
		{"plan-check-json", "", []string{"check", "plan.yaml", "calls.jsonl", "--json"}, 1},
		{"plan-check-github", "", []string{"check", "plan.yaml", "calls.jsonl", "--github"}, 1},
		{"plan-check-array", "", []string{"check", "plan.yaml", "array.json"}, 1},
		{"plan-check-unused", goodOrder, []string{"check", "plan.yaml", "--unused", "--github"}, 1},
		{"plan-check-none", " \n", []string{"check", "plan.yaml"}, 1},
		{"plan-check-none-json", "", []string{"check", "plan.yaml", "-o", "json"}, 1},
		{"plan-check-none-github", "[]", []string{"check", "plan.yaml", "--github"}, 1},
		{"plan-check-passed", `{"type":"alias"}`, []string{"check", "plan.yaml"}, 0},
		{"plan-check-lines", "{\n" + goodOrder, []string{"check", "plan.yaml"}, 2},
		{"plan-check-vague", `{"type":"track","event":"Cart Emptied"}`, []string{"check", "vague.json"}, 0},
		{"plan-check-vague-json", `{"type":"track","event":"Cart Emptied"}`, []string{"check", "vague.json", "--json"}, 0},
		{"plan-check-vague-github", `{"type":"track","event":"Cart Emptied"}`, []string{"check", "vague.json", "--github"}, 0},
		{"plan-check-no-plan", "", []string{"check"}, 2},
		{"plan-check-no-file", "", []string{"check", "missing.yaml"}, 2},
		{"plan-check-no-calls-file", "", []string{"check", "plan.yaml", "missing.jsonl"}, 2},
		{"plan-check-broken", "", []string{"check", "broken.yaml"}, 2},
		{"plan-check-filter", "", []string{"check", "plan.yaml", "--since", "1h"}, 2},
		{"plan-check-both", "", []string{"check", "plan.yaml", "calls.jsonl", "--collector"}, 2},
		{"plan-check-open-array", "[" + goodOrder, []string{"check", "plan.yaml"}, 2},
		{"plan-check-two-arrays", "[" + goodOrder + "]\n[" + badOrder + "]", []string{"check", "plan.yaml"}, 2},
		{"plan-check-printed-array", `[{"ref":"a","body":` + goodOrder + `}]`, []string{"check", "plan.yaml"}, 0},
		{"plan-infer", "", []string{"infer", "calls.jsonl", "--name", "shop"}, 0},
		{"plan-infer-one", goodOrder, []string{"infer"}, 0},
		{"plan-infer-no-enums", strings.Repeat(strings.ReplaceAll(goodOrder, "\n", "")+"\n", 20), []string{"infer", "--max-enum", "0"}, 0},
		{"plan-infer-output", goodOrder, []string{"infer", "-o", "json"}, 2},
		{"plan-infer-none", "", []string{"infer"}, 1},
		{"plan-infer-ignored", `{"type":"alias"}`, []string{"infer"}, 1},
		{"plan-infer-batch", `{"batch":[{"type":"track","event":"A"}]}`, []string{"infer"}, 1},
		{"plan-infer-empty-array", "[]", []string{"infer"}, 1},
		{"plan-diff", "", []string{"diff", "plan.yaml", "newer.yaml"}, 0},
		{"plan-diff-json", "", []string{"diff", "plan.yaml", "newer.yaml", "--json", "--fail-on", "senders"}, 1},
		{"plan-diff-none", "", []string{"diff", "plan.yaml", "plan.yaml", "--fail-on", "any"}, 0},
		{"plan-diff-one", "", []string{"diff", "plan.yaml"}, 2},
		{"plan-gen", "", []string{"gen", "plan.yaml", "--package", "shop"}, 0},
		{"plan-gen-vague", "", []string{"gen", "vague.json", "--output", "internal/events/events.go"}, 0},
		{"plan-gen-none", "", []string{"gen"}, 2},
		{"plan-gen-broken", "", []string{"gen", "broken.yaml"}, 2},
		{"plan-gen-package", "", []string{"gen", "plan.yaml", "--package", "func"}, 2},
		{"plan-diff-whom", "", []string{"diff", "plan.yaml", "plan.yaml", "--fail-on", "all"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errOut, code := runWith(t, c.in, append([]string{"plan"}, c.args...)...)
			assert.Equal(t, c.code, code)
			golden(t, filepath.Join(goldens, c.name), out+errOut)
		})
	}
}

func TestPlanCheckReadsFromCollector(t *testing.T) {
	srv := mockserver.RunT(t)
	const calls = 250 // more than one page
	for i := range calls {
		body := fmt.Sprintf(`{"type":"track","userId":"u","messageId":"m%d","event":"Order Completed","properties":{"orderId":"%d","total":%d}}`, i, i, i)
		req, err := srv.Client().Post(srv.URL+"/v1/track", "application/json", strings.NewReader(body[:len(body)-1]+`,"writeKey":"k"}`))
		require.NoError(t, err)
		require.Equal(t, 200, req.StatusCode)
		require.NoError(t, req.Body.Close())
	}
	inDirectory(t, nil)

	_, errOut, code := run(t, "plan", "infer", "--url", srv.URL, "--collector", "--event", "Other")
	assert.Equal(t, 1, code)
	assert.Equal(t, "collector: no calls to infer a plan from: send calls to the collector, or use fewer filters\n", errOut)
	inferred, errOut, code := run(t, "plan", "infer", "--url", srv.URL, "--collector")
	require.Zero(t, code, errOut)
	assert.Contains(t, inferred, "Order Completed: # 250 calls")
	require.NoError(t, os.WriteFile("plan.yaml", []byte(inferred), 0o600))

	out, errOut, code := run(t, "plan", "check", "plan.yaml", "--url", srv.URL, "--collector", "--json")
	require.Zero(t, code, out+errOut)
	var answer struct{ Calls, Bad int }
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	assert.Equal(t, calls, answer.Calls)
	assert.Zero(t, answer.Bad)

	require.NoError(t, os.WriteFile("plan.yaml", []byte(strings.ReplaceAll(inferred, "total: {type: integer", "total: {type: string")), 0o600))
	out, _, code = run(t, "plan", "check", "plan.yaml", "--url", srv.URL, "--collector", "--event", "Order Completed")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "/properties/total is 249, a number; expected a string (250 calls, the first at m249)")
}
