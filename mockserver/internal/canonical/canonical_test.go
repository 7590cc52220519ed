package canonical_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// node is a Node.js process that runs testdata/stringify.js.
type node struct {
	in  io.Writer
	out *bufio.Reader
}

// startNode starts Node.js. If Node.js is not installed, it skips the test, because TestCorpus covers
// the same behavior. With REQUIRE_NODE=1, as in CI, the test fails instead.
func startNode(tb testing.TB) *node {
	tb.Helper()
	path, err := exec.LookPath("node")
	if err != nil && os.Getenv("REQUIRE_NODE") != "1" {
		tb.Skip("Node.js is not installed")
	}
	cmd := exec.Command(path, filepath.Join("testdata", "stringify.js"))
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(err, inErr, outErr, cmd.Start()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("node: %v", err)
		}
	})
	return &node{in: in, out: bufio.NewReader(out)}
}

// stringify returns JavaScript's output for documents; nil for invalid JSON.
func (n *node) stringify(tb testing.TB, docs ...[]byte) []*string {
	tb.Helper()
	go func() { // concurrently, because node responds before it has read everything; after an error, responses are missing
		in := bufio.NewWriter(n.in)
		for _, doc := range docs {
			_, _ = in.Write(binary.BigEndian.AppendUint32(nil, uint32(len(doc))))
			_, _ = in.Write(doc)
		}
		_ = in.Flush()
	}()
	answers := make([]*string, len(docs))
	for i := range answers {
		line, err := n.out.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &answers[i])
		}
		if err != nil {
			tb.Fatalf("%q: node wrote %q: %v", docs[i], line, err)
		}
	}
	return answers
}

// checkForm compares the output of Append with the output of JavaScript. want is nil for invalid
// JSON.
func checkForm(t *testing.T, doc []byte, want *string) {
	t.Helper()
	got, err := canonical.Append([]byte("before"), doc)
	if want == nil {
		if err == nil || string(got) != "before" || len(canonical.Changes(doc)) > 0 {
			t.Errorf("%q gives %q, error %v; JavaScript refuses it", doc, got, err)
		}
		return
	}
	if err != nil || string(got) != "before"+*want {
		t.Errorf("%q\n gives %q, error %v\n  want %q", doc, got, err, *want)
		return
	}
	form := got[len("before"):]
	if again, err := canonical.Append(nil, form); err != nil || !bytes.Equal(again, form) {
		t.Errorf("%q is not canonical: got %q, error %v", form, again, err)
	}
	for _, c := range canonical.Changes(form) {
		if c.Kind != canonical.ChangeLoneSurrogate {
			t.Errorf("%q is canonical, but has the change %+v", form, c)
		}
	}
}

// TestAppendMatchesJavaScript compares generated documents. It uses only 20,000 documents under the
// race detector or with -short.
func TestAppendMatchesJavaScript(t *testing.T) {
	rounds := 30
	if testing.Short() || raceEnabled {
		rounds = 5
	}
	node, g := startNode(t), newGenerator(1)
	docs := make([][]byte, 1000)
	for range rounds {
		for i := range docs {
			docs[i] = g.document()
		}
		for i, want := range node.stringify(t, docs...) {
			checkForm(t, docs[i], want)
		}
		if t.Failed() {
			return
		}
	}
}

func FuzzAppend(f *testing.F) {
	g := newGenerator(4)
	for range 200 {
		f.Add(g.document())
	}
	node := startNode(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		if bytes.Count(doc, []byte("["))+bytes.Count(doc, []byte("{")) <= jsonscan.MaxDepth { // JavaScript has a different limit
			checkForm(t, doc, node.stringify(t, doc)[0])
		}
	})
}

// A corpusCase is a line of testdata/canonical/*.jsonl.
type corpusCase struct {
	About string  `json:"about,omitempty"`
	In    string  `json:"in,omitempty"`
	Hex   string  `json:"hex,omitempty"` // replaces In for invalid UTF-8
	Out   *string `json:"out"`           // null for invalid documents
}

func (c *corpusCase) document(t *testing.T) []byte {
	if c.Hex == "" {
		return []byte(c.In)
	}
	doc, err := hex.DecodeString(c.Hex)
	if err != nil {
		t.Fatalf("%s: %v", c.About, err)
	}
	return doc
}

// TestCorpus compares documents with recorded output of JavaScript. With -update it runs
// Node.js and rewrites the corpus.
func TestCorpus(t *testing.T) {
	for _, name := range []string{"cases.jsonl", "generated.jsonl"} {
		t.Run(name, func(t *testing.T) {
			cases := readCorpus(t, name)
			if *update {
				cases = updateCorpus(t, name, cases)
			}
			if len(cases) < 100 {
				t.Errorf("there are only %d cases", len(cases))
			}
			for _, c := range cases {
				checkForm(t, c.document(t), c.Out)
			}
		})
	}
}

func readCorpus(t *testing.T, name string) (cases []corpusCase) {
	f, err := os.Open(filepath.Join("testdata", "canonical", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := json.NewDecoder(f); d.More(); {
		var c corpusCase
		if err := d.Decode(&c); err != nil {
			t.Fatalf("case %d: %v", len(cases)+1, err)
		}
		cases = append(cases, c)
	}
	return cases
}

func updateCorpus(t *testing.T, name string, cases []corpusCase) []corpusCase {
	if name == "generated.jsonl" {
		cases = generateCorpus()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	node := startNode(t)
	for i := range cases {
		c := &cases[i]
		c.Out = node.stringify(t, c.document(t))[0]
		if err := e.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join("testdata", "canonical", name), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return cases
}

func generateCorpus() (cases []corpusCase) {
	for g := newGenerator(2); len(cases) < 300; {
		switch doc := g.document(); {
		case len(doc) > 250:
		case utf8.Valid(doc):
			cases = append(cases, corpusCase{In: string(doc)})
		default:
			cases = append(cases, corpusCase{Hex: hex.EncodeToString(doc)})
		}
	}
	return cases
}

func TestDepthLimit(t *testing.T) {
	nest := func(n int) []byte {
		return []byte(strings.Repeat(`{"a":[`, n/2) + strings.Repeat(`]}`, n/2))
	}
	if _, err := canonical.Append(nil, nest(jsonscan.MaxDepth)); err != nil {
		t.Errorf("%d deep: %v", jsonscan.MaxDepth, err)
	}
	for _, n := range []int{jsonscan.MaxDepth + 2, 1_000_000} {
		_, err := canonical.Append(nil, nest(n))
		if err == nil || err.Error() != "invalid JSON at byte 3000: nested deeper than 1000" {
			t.Errorf("%d deep: error %v", n, err)
		}
	}
}

func TestErrorsContainOffset(t *testing.T) {
	for doc, want := range map[string]string{
		``:                   "invalid JSON at byte 0: unexpected end of text",
		` `:                  "invalid JSON at byte 1: unexpected end of text",
		`{"a":1`:             "invalid JSON at byte 6: unexpected end of text",
		`{"a":1]`:            "invalid JSON at byte 6: expected a comma or '}'",
		`[1 2]`:              "invalid JSON at byte 3: expected a comma or ']'",
		`{a:1}`:              "invalid JSON at byte 1: expected a key in double quotes",
		`{"a" 1}`:            "invalid JSON at byte 5: expected a colon after the key",
		`{"a":1,}`:           "invalid JSON at byte 7: expected a key in double quotes",
		`[1,]`:               "invalid JSON at byte 3: expected a value",
		`[01]`:               "invalid JSON at byte 2: expected a comma or ']'",
		`[-]`:                "invalid JSON at byte 1: expected a value",
		`[1.]`:               "invalid JSON at byte 1: expected a value",
		`[1e]`:               "invalid JSON at byte 1: expected a value",
		`nul`:                "invalid JSON at byte 0: expected null",
		"\"\n\"":             "invalid JSON at byte 1: unescaped control character in a string",
		`"\x"`:               "invalid JSON at byte 1: invalid escape sequence",
		`"\u12g4"`:           "invalid JSON at byte 1: invalid escape sequence",
		`"\u12`:              "invalid JSON at byte 1: invalid escape sequence",
		`"\`:                 "invalid JSON at byte 1: invalid escape sequence",
		`1 2`:                "invalid JSON at byte 2: text after the value",
		"\ufeff1":            "invalid JSON at byte 0: expected a value",
		"[\x00]":             "invalid JSON at byte 1: expected a value",
		`{"a":{"b":[1,{"c`:   "invalid JSON at byte 16: unexpected end of text",
		`{"` + "\x80" + `":`: "invalid JSON at byte 5: unexpected end of text",
	} {
		got, err := canonical.Append([]byte("kept"), []byte(doc))
		if err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %q", doc, err, want)
		}
		if string(got) != "kept" {
			t.Errorf("%q: dst is now %q", doc, got)
		}
	}
}

// TestBuffersAreNotShared checks that documents do not share buffers, even after errors.
func TestBuffersAreNotShared(t *testing.T) {
	mine := make([]byte, 0, 1024)
	if _, err := canonical.Append(mine, []byte(`{"b":"mine", "1":`)); err == nil {
		t.Fatal("no error")
	}
	mine = append(mine, "mine"...)
	for range 10 {
		o, err := canonical.ReadObject([]byte(`{"type":"identify", "userId":"other"}`))
		if err != nil {
			t.Fatal(err)
		}
		o.Release()
	}
	if string(mine) != "mine" {
		t.Errorf("the caller's buffer was overwritten: %q", mine)
	}
}

func TestCanonicalInputDoesNotAllocate(t *testing.T) {
	form, err := canonical.Append(nil, benchmarkCall)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 0, 2*len(form))
	allocs := testing.AllocsPerRun(100, func() { dst, _ = canonical.Append(dst[:0], form) })
	if !raceEnabled && allocs > 0 {
		t.Errorf("%v allocations for a canonical document", allocs)
	}
}

var benchmarkCall = []byte(`{"type":"track","userId":"019mr8mf4r","event":"Order Completed","messageId":"0192f0f4-7b0c-7000-8000-000000000001","properties":{"order_id":"50314b8e9bcf000000000000","total":27.5,"currency":"USD","coupon":"hasbros","step":3,"returning":true,"products":[{"sku":"45790-32","name":"Monopoly: 3rd Edition","price":19},{"sku":"46493-32","name":"Uno Card Game","price":3.25}],"note":"café, für alle"},"context":{"ip":"203.0.113.7","library":{"name":"analytics-go","version":"3.0.0"},"userAgent":"Mozilla/5.0 (X11; Linux x86_64)"},"integrations":{"All":true,"Webhooks":true},"timestamp":"2024-05-17T10:20:30.123Z","sentAt":"2024-05-17T10:20:30.500Z"}`)

func BenchmarkCanonical(b *testing.B) {
	form, err := canonical.Append(nil, benchmarkCall)
	if err != nil {
		b.Fatal(err)
	}
	spaced := bytes.ReplaceAll(form, []byte(":"), []byte(": "))
	for name, doc := range map[string][]byte{"canonical": form, "spaced": spaced} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst, _ = canonical.Append(dst[:0], doc)
			}
		})
	}
}
