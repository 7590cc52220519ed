package generate

import (
	"encoding/json"
	"flag"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/plan"
)

var update = flag.Bool("update", false, "update the golden files")

func load(t *testing.T, file string) *plan.Plan {
	t.Helper()
	p, err := plan.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func generated(t *testing.T, file string) []byte {
	t.Helper()
	return generatedFor(t, file, "")
}

// generatedFor returns the output for a package.
func generatedFor(t *testing.T, file, packageName string) []byte {
	t.Helper()
	out, err := Events(load(t, file), packageName)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOutputIsStableAndFormatted(t *testing.T) {
	for _, file := range []string{"testdata/strange.yaml", "../testdata/shop.yaml"} {
		out := generated(t, file)
		for range 3 {
			if string(generated(t, file)) != string(out) {
				t.Fatalf("%s: two runs differ", file)
			}
		}
		formatted, err := format.Source(out)
		if err != nil || string(formatted) != string(out) {
			t.Errorf("%s is not formatted: %v", file, err)
		}
		golden := filepath.Join("testdata", strings.TrimSuffix(filepath.Base(file), ".yaml")+".golden")
		if *update {
			if err := os.WriteFile(golden, out, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != string(out) {
			t.Errorf("%s: the output differs from %s; to accept it, run go test -update", file, golden)
		}
	}
}

// inClient runs the go command in the client's module, with an overlay that contains the given
// files. Their paths are relative to the module's root.
func inClient(t *testing.T, files map[string]string, args ...string) (stdout string, err error) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range files {
		replace[filepath.Join(root, name)] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(replace[filepath.Join(root, name)], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append([]string{args[0], "-overlay", file}, args[1:]...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out := new(strings.Builder)
	errors := new(strings.Builder)
	cmd.Stdout, cmd.Stderr = out, errors
	err = cmd.Run()
	t.Log(errors)
	return out.String() + errors.String(), err
}

// Calls from generated types match the plan. Invalid values return errors.
func TestGeneratedCallsMatchPlan(t *testing.T) {
	main, err := os.ReadFile("testdata/main.go")
	if err != nil {
		t.Fatal(err)
	}
	out, err := inClient(t, map[string]string{
		"internal/generated/events/events.go": string(generated(t, "testdata/strange.yaml")),
		"internal/generated/main.go":          string(main),
	}, "run", "./internal/generated")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := load(t, "testdata/strange.yaml")
	seen := map[*plan.Event]bool{}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var body struct{ Batch []json.RawMessage }
		if err := json.Unmarshal([]byte(line), &body); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, call := range body.Batch {
			seen[p.EventOf(call)] = true
			for _, v := range p.Judge(call) {
				t.Errorf("%s\n%s", v, call)
			}
		}
	}
	for _, e := range p.Events() {
		if !seen[e] && e.Name != "Item" {
			t.Errorf("no calls of %s", e)
		}
	}
}

// TestUnusualPlansCompile checks plans whose code does not use all imports, or has repeated values in an enum.
func TestUnusualPlansCompile(t *testing.T) {
	files := map[string]string{}
	args := []string{"build"}
	for name, text := range map[string]string{
		"empty":    "track:\n",
		"bare":     "track: {A: {}}",
		"times":    `track: {A: {properties: {p: {type: array, items: {type: [string, "null"], format: date-time}}}}}`,
		"repeated": "track: {A: {properties: {p: {enum: [a, b, a]}, q: {enum: [0, 1, -0]}}}}",
	} {
		p, err := plan.Parse("plan.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		out, err := Events(p, "")
		if err != nil {
			t.Fatal(err)
		}
		dir := "internal/generated/" + name
		files[dir+"/events.go"] = string(out)
		args = append(args, "./"+dir)
	}
	if out, err := inClient(t, files, args...); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestMistakesDoNotCompile(t *testing.T) {
	files := map[string]string{"internal/generated/events/events.go": string(generated(t, "../testdata/shop.yaml"))}
	mistakes := map[string]struct{ code, want string }{
		"property": {`events.OrderCompleted{OrderId: "o"}.By("u")`, "unknown field OrderId in struct literal"},
		"type":     {`events.OrderCompleted{OrderID: "o", Total: "25"}.By("u")`, `cannot use "25"`},
		"enum":     {`events.OrderCompleted{Currency: events.OrderCompletedCurrencyGBP}.By("u")`, "undefined: events.OrderCompletedCurrencyGBP"},
		"event":    {`events.OrderComplete{}.By("u")`, "undefined: events.OrderComplete"},
		"optional": {`events.OrderCompleted{Coupon: 3}.By("u")`, "cannot use 3"},
	}
	args := []string{"build"}
	for name, m := range mistakes {
		dir := "internal/generated/" + name
		files[dir+"/main.go"] = "package main\n\nimport \"github.com/seed-45eadc4a/analytics-go/internal/generated/events\"\n\nfunc main() {\n\t_ = " + m.code + "\n}\n"
		args = append(args, "./"+dir)
	}
	out, err := inClient(t, files, args...)
	if err == nil {
		t.Fatal("no compile errors")
	}
	for name, m := range mistakes {
		if !strings.Contains(out, m.want) {
			t.Errorf("%s: %q is not in %s", name, m.want, out)
		}
	}
	if strings.Contains(out, "events/events.go") {
		t.Errorf("the generated package has errors: %s", out)
	}
}

// All generated files in the repository are up to date.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	for _, c := range []struct{ plan, packageName, output string }{
		{"../../examples/plan/plan.yaml", Package, "../../examples/plan/events/events.go"},
		{"../../bench/plan.yaml", "main", "../../bench/events.go"},
	} {
		got, err := os.ReadFile(c.output)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(generatedFor(t, c.plan, c.packageName)) {
			t.Errorf("%s is not up to date with %s: run go generate", c.output, c.plan)
		}
	}
}

func TestExported(t *testing.T) {
	for name, want := range map[string]string{
		"Order Completed": "OrderCompleted", "order_completed": "OrderCompleted", "orderId": "OrderID", "order-id": "OrderID",
		"userID": "UserID", "URLPath": "URLPath", "html url": "HTMLURL", "type": "Type", "3D": "X3D", "": "X", "!": "X",
		"été": "Été", "名前": "X名前", "_x": "X", "a.b": "AB", "\xff": "X", "ǆ": "Ǆ", "utf8": "UTF8", "v2Beta": "V2Beta",
	} {
		if got := exported(name); got != want {
			t.Errorf("%q is %s, not %s", name, got, want)
		}
	}
}

func TestPackageNames(t *testing.T) {
	p := load(t, "../testdata/shop.yaml")
	for _, name := range []string{"func", "my events", "_", "3d", "a\nb"} {
		if _, err := Events(p, name); err == nil || !strings.Contains(err.Error(), "invalid package name") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzEvents checks that the output is valid Go for any names and descriptions.
func FuzzEvents(f *testing.F) {
	f.Add("Order Completed", "orderId", "The customer\npaid", "EUR")
	f.Add("3D", "\"\\\n`", "*/ \r\u2028 //", "\x00")
	f.Add("keyA", "By", "Code generated", "")
	f.Fuzz(func(t *testing.T, event, property, text, value string) {
		object := map[string]any{property: map[string]any{"enum": []string{value}, "description": text}, "a": map[string]any{"type": "object", "properties": map[string]any{property: map[string]any{"type": "string"}}}}
		file, err := json.Marshal(map[string]any{"plan": text, "description": text, "track": map[string]any{event: map[string]any{"description": text, "properties": object}, "a": map[string]any{"properties": object}}})
		if err != nil {
			t.Skip()
		}
		p, err := plan.Parse("plan.json", file)
		if err != nil {
			t.Skip()
		}
		if _, err := Events(p, ""); err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
	})
}
