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
	"strconv"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// TestCanonicalJudgedByNode asks JavaScript itself about generated documents.
// WEBHOOK_JUDGE sets their number, WEBHOOK_SEED which ones they are. Under the
// race detector, and with -short, there are at most 20,000.
func TestCanonicalJudgedByNode(t *testing.T) {
	n := envInt(t, "WEBHOOK_JUDGE", 100_000)
	if testing.Short() || raceEnabled {
		n = min(n, 20_000)
	}
	seed := envInt(t, "WEBHOOK_SEED", 1)
	node := startNode(t, "judge")

	go func() {
		g := newGenerator(uint64(seed))
		var form []byte
		for range n {
			doc := g.document()
			form, _ = canonical.Append(form[:0], doc)
			node.record(doc, form, "sécret", webhook.Sign("sécret", form))
		}
		node.close()
	}()

	judged := 0
	var verdict struct {
		Index, Judged int
		Problem, Want string
	}
	for line := range node.lines() {
		if err := json.Unmarshal(line, &verdict); err != nil {
			t.Fatalf("node wrote %q: %v", line, err)
		}
		judged = verdict.Judged
		if verdict.Problem != "" {
			g := newGenerator(uint64(seed))
			for range verdict.Index {
				g.document()
			}
			doc := g.document()
			form, err := canonical.Append(nil, doc)
			t.Errorf("document %d %q\ngives %q, error %v\nnode says: %s %q", verdict.Index, doc, form, err, verdict.Problem, verdict.Want)
		}
		if t.Failed() && verdict.Index > 20 {
			break
		}
	}
	node.wait()
	if judged != n {
		t.Errorf("node judged %d documents of %d", judged, n)
	}
}

func envInt(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q is no number", name, text)
	}
	return n
}

// judge is a node process that runs testdata/judge.js.
type judge struct {
	t      *testing.T
	cmd    *exec.Cmd
	pipe   io.WriteCloser
	in     *bufio.Writer
	out    *bufio.Scanner
	stderr bytes.Buffer
}

func startNode(t *testing.T, mode string) *judge {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: the corpus in testdata and the reference in Go judge alone")
	}
	j := &judge{t: t, cmd: exec.CommandContext(t.Context(), path, filepath.Join("testdata", "judge.js"), mode)}
	j.cmd.Stderr = &j.stderr
	if j.pipe, err = j.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	j.in, j.out = bufio.NewWriterSize(j.pipe, 1<<16), bufio.NewScanner(out)
	j.out.Buffer(nil, 1<<24)
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return j
}

// record writes one record; errors show as records that node has not judged.
func (j *judge) record(doc, form []byte, secret, signature string) {
	for _, part := range [][]byte{doc, form, []byte(secret), []byte(signature)} {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(part)))
		j.in.Write(size[:])
		j.in.Write(part)
	}
}

func (j *judge) close() {
	j.in.Flush()
	j.pipe.Close()
}

func (j *judge) lines() func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for j.out.Scan() && yield(j.out.Bytes()) {
		}
	}
}

func (j *judge) wait() {
	j.t.Helper()
	if err := j.cmd.Wait(); err != nil {
		j.t.Errorf("node: %v\n%s", err, j.stderr.Bytes())
	}
}

// corpusCase is a line of testdata/canonical/*.jsonl.
type corpusCase struct {
	About string  `json:"about,omitempty"`
	In    string  `json:"in,omitempty"`
	Hex   string  `json:"hex,omitempty"` // in place of In where that is not UTF-8
	Out   *string `json:"out"`           // null: the document is refused
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

func readCorpus(t *testing.T, name string) (cases []corpusCase) {
	f, err := os.Open(filepath.Join("testdata", "canonical", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	for {
		var c corpusCase
		if err := d.Decode(&c); errors.Is(err, io.EOF) {
			return cases
		} else if err != nil {
			t.Fatalf("%s: case %d: %v", name, len(cases)+1, err)
		}
		cases = append(cases, c)
	}
}

var corpora = []string{"cases.jsonl", "generated.jsonl"}

func TestCanonicalCorpus(t *testing.T) {
	if *update {
		t.Skip("the corpus is being written anew")
	}
	for _, name := range corpora {
		cases := readCorpus(t, name)
		if len(cases) < 100 {
			t.Errorf("%s has only %d cases", name, len(cases))
		}
		for i, c := range cases {
			doc := c.document(t)
			got, err := canonical.Append(nil, doc)
			switch {
			case c.Out == nil && err == nil:
				t.Errorf("%s: case %d %s: %q gives %q, want an error", name, i+1, c.About, doc, got)
			case c.Out == nil:
			case err != nil:
				t.Errorf("%s: case %d %s: %q: %v", name, i+1, c.About, doc, err)
			case string(got) != *c.Out:
				t.Errorf("%s: case %d %s: %q\n gives %q\n  want %q", name, i+1, c.About, doc, got, *c.Out)
			default:
				checkFixpoint(t, got)
			}
		}
	}
}

// checkFixpoint checks what holds of each canonical form, and that a signature
// over it is the one over its own canonical form.
func checkFixpoint(t *testing.T, form []byte) {
	t.Helper()
	again, err := canonical.Append(nil, form)
	if err != nil || !bytes.Equal(again, form) {
		t.Errorf("%q is no fixpoint, it gives %q, error %v", form, again, err)
		return
	}
	if err := webhook.Verify("secret", again, webhook.Sign("secret", form)); err != nil {
		t.Errorf("%q: %v", form, err)
	}
	if !json.Valid(form) {
		t.Errorf("%q is not valid for encoding/json", form)
	}
}

// TestCanonicalCorpusIsNodes checks that the corpus expects what JavaScript
// gives. With -update the corpus is written anew, with node's output.
func TestCanonicalCorpusIsNodes(t *testing.T) {
	for _, name := range corpora {
		t.Run(name, func(t *testing.T) {
			node := startNode(t, "print")
			cases := corpusFor(t, name)
			go func() {
				for _, c := range cases {
					node.record(c.document(t), nil, "", "")
				}
				node.close()
			}()
			i := 0
			for line := range node.lines() {
				var want *string
				if err := json.Unmarshal(line, &want); err != nil {
					t.Fatal(err)
				}
				if c := &cases[i]; *update {
					c.Out = want
				} else if (want == nil) != (c.Out == nil) || want != nil && *want != *c.Out {
					t.Errorf("case %d %s: %q: node gives %s", i+1, c.About, c.In, line)
				}
				i++
			}
			node.wait()
			if i != len(cases) {
				t.Fatalf("node answered %d of %d", i, len(cases))
			}
			if *update {
				writeCorpus(t, name, cases)
			}
		})
	}
}

// corpusFor returns the corpus to check, or the one to write anew.
func corpusFor(t *testing.T, name string) []corpusCase {
	if !*update || name != "generated.jsonl" {
		return readCorpus(t, name)
	}
	var cases []corpusCase
	for g := newGenerator(2); len(cases) < 300; {
		doc := g.document()
		if len(doc) > 250 {
			continue
		}
		c := corpusCase{In: string(doc)}
		if strings.ToValidUTF8(c.In, "") != c.In {
			c = corpusCase{Hex: hex.EncodeToString(doc)}
		}
		cases = append(cases, c)
	}
	return cases
}

func writeCorpus(t *testing.T, name string, cases []corpusCase) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, c := range cases {
		if err := e.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join("testdata", "canonical", name), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCanonicalLikeReference(t *testing.T) {
	n := 20_000
	if testing.Short() || raceEnabled {
		n = 2_000
	}
	g := newGenerator(3)
	for range n {
		compareWithReference(t, g.document())
		if t.Failed() {
			return
		}
	}
}

func compareWithReference(t *testing.T, doc []byte) {
	t.Helper()
	want, refused := reference(doc)
	got, err := canonical.Append([]byte("before"), doc)
	if refused != nil {
		if err == nil || string(got) != "before" {
			t.Errorf("%q gives %q, error %v; the reference refuses it", doc, got, err)
		}
		if len(canonical.Changes(doc)) > 0 {
			t.Errorf("%q is no JSON and has changes", doc)
		}
		return
	}
	if err != nil || string(got) != "before"+want {
		t.Errorf("%q\n gives %q, error %v\n  want %q", doc, got, err, want)
		return
	}
	checkFixpoint(t, got[len("before"):])
	if changes := canonical.Changes([]byte(want)); len(changes) > 0 && !onlyLoneSurrogates(changes) {
		t.Errorf("%q is canonical and has changes %+v", want, changes)
	}
}

func onlyLoneSurrogates(changes []canonical.Change) bool {
	for _, c := range changes {
		if c.Kind != canonical.ChangeLoneSurrogate {
			return false
		}
	}
	return true
}

func FuzzCanonical(f *testing.F) {
	g := newGenerator(4)
	for range 200 {
		f.Add(g.document())
	}
	f.Fuzz(func(t *testing.T, doc []byte) { compareWithReference(t, doc) })
}

func TestCanonicalDepth(t *testing.T) {
	nest := func(n int) []byte {
		return []byte(strings.Repeat(`{"a":[`, n/2) + strings.Repeat(`]}`, n/2))
	}
	if _, err := canonical.Append(nil, nest(canonical.MaxDepth)); err != nil {
		t.Errorf("%d deep: %v", canonical.MaxDepth, err)
	}
	for _, n := range []int{canonical.MaxDepth + 2, 1_000_000} {
		_, err := canonical.Append(nil, nest(n))
		if err == nil || !strings.Contains(err.Error(), "deeper than 1000, at byte 3000") {
			t.Errorf("%d deep: error %v", n, err)
		}
	}
}

func TestCanonicalErrors(t *testing.T) {
	for doc, want := range map[string]string{
		``:                   "ends too early, at byte 0",
		` `:                  "ends too early, at byte 1",
		`{"a":1`:             "ends too early, at byte 6",
		`{"a":1]`:            "lacks a comma or } in an object, at byte 6",
		`[1 2]`:              "lacks a comma or ] in an array, at byte 3",
		`{a:1}`:              "lacks a key in an object, at byte 1",
		`{"a" 1}`:            "lacks a colon after a key, at byte 5",
		`{"a":1,}`:           "lacks a key in an object, at byte 7",
		`[1,]`:               "malformed value, at byte 3",
		`[01]`:               "malformed value, at byte 1",
		`[-]`:                "malformed value, at byte 1",
		`[1.]`:               "malformed value, at byte 1",
		`[1e]`:               "malformed value, at byte 1",
		`nul`:                "unknown word, at byte 0",
		"\"\n\"":             "control character that is not escaped, at byte 1",
		`"\x"`:               "malformed escape sequence, at byte 1",
		`"\u12g4"`:           "malformed escape sequence, at byte 1",
		`"\u12`:              "malformed escape sequence, at byte 1",
		`"\`:                 "malformed escape sequence, at byte 1",
		`1 2`:                "more after its end, at byte 2",
		"\ufeff1":            "malformed value, at byte 0",
		"[\x00]":             "malformed value, at byte 1",
		`{"a":{"b":[1,{"c`:   "ends too early, at byte 16",
		`{"` + "\x80" + `":`: "ends too early, at byte 5",
	} {
		got, err := canonical.Append([]byte("kept"), []byte(doc))
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: error %v, want one that ends in %q", doc, err, want)
		}
		if string(got) != "kept" {
			t.Errorf("%q: dst is now %q", doc, got)
		}
	}
}

// TestCanonicalKeepsDst checks that the buffers of one document never end up in
// that of another, also when it fails halfway.
func TestCanonicalKeepsDst(t *testing.T) {
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
		t.Errorf("the caller's buffer was written to: %q", mine)
	}
}

func TestCanonicalCopiesWithoutAllocating(t *testing.T) {
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
