package e2e

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// formatsDir contains data directories in each format. If formatsEnv is set, TestFormatIsLeft
// writes another one there; see make formats.
const (
	formatsDir = "testdata/formats"
	formatsEnv = "FORMATS"
)

// A left describes the expected contents of a data directory.
type left struct {
	Ledgers      map[string]tracking.Ledger
	Sources      []string
	Destinations []string
	Members      int // number of users in the audience
}

// A formatRig is a collector with four destinations: one accepts calls, one rejects calls, one
// fails and one is paused.
type formatRig struct {
	*harness.Collector
	path, address string

	mu   sync.Mutex
	got  map[string]map[string]bool // messageIds that each destination accepted
	fail bool                       // whether one destination fails; must not change while the rig is serving
}

func newFormatRig(t *testing.T, dir string, fail bool) *formatRig {
	rig := &formatRig{got: map[string]map[string]bool{}, fail: fail}
	receiver := httptest.NewServer(rig)
	t.Cleanup(receiver.Close)
	var destinations strings.Builder
	for _, name := range []string{"takes", "refuses", "fails", "rests"} {
		destinations.WriteString(destination(name, receiver.URL+"/"+name))
	}
	// Old pending calls must not expire.
	rig.path, rig.address = configure(t, dir, "data: data\nlimits: {keep: 876000h}", destinations.String())
	rig.Collector = serve(t, rig.path, rig.address, nil)
	return rig
}

func (rig *formatRig) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	switch {
	case name == "refuses":
		w.WriteHeader(http.StatusBadRequest)
		return
	case name == "fails" && rig.fail:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	rig.mu.Lock()
	defer rig.mu.Unlock()
	if rig.got[name] == nil {
		rig.got[name] = map[string]bool{}
	}
	rig.got[name][r.Header.Get("X-Message-Id")] = true
}

// gotBy returns the calls that a destination accepted.
func (rig *formatRig) gotBy(name string) map[string]bool {
	rig.mu.Lock()
	defer rig.mu.Unlock()
	return maps.Clone(rig.got[name])
}

// names returns the names in a list of the admin API.
func (rig *formatRig) names(t *testing.T, list string) (names []string) {
	t.Helper()
	var answer map[string][]struct{ Name string }
	require.NoError(t, rig.Ask(t.Context(), http.MethodGet, "/"+list, nil, &answer))
	for _, one := range answer[list] {
		names = append(names, one.Name)
	}
	return names
}

// members returns the number of users in the audience.
func (rig *formatRig) members(t *testing.T) int {
	t.Helper()
	var answer struct{ Computations []struct{ Users int } }
	require.NoError(t, rig.Ask(t.Context(), http.MethodGet, "/computations", nil, &answer))
	require.Len(t, answer.Computations, 1)
	return answer.Computations[0].Users
}

// deletion returns the number of pending and delivered notifications of the deletion request.
func (rig *formatRig) deletion(t *testing.T) (pending, delivered int) {
	t.Helper()
	var d struct {
		Targets []struct{ Pending, Delivered int }
	}
	require.NoError(t, rig.Ask(t.Context(), http.MethodGet, "/deletions/gdpr-1", nil, &d))
	for _, target := range d.Targets {
		pending, delivered = pending+target.Pending, delivered+target.Delivered
	}
	return pending, delivered
}

// fill creates calls in every state, settings, an audience and a deletion request.
func (rig *formatRig) fill(t *testing.T) (l left) {
	t.Helper()
	ask := func(path string, body any) {
		t.Helper()
		require.NoError(t, rig.Ask(t.Context(), http.MethodPost, path, body, nil))
	}
	ask("/destinations/rests/pause", nil)
	ask("/sources", map[string]any{"name": "shop", "writeKey": "shop-key"})
	ask("/destinations", map[string]any{"name": "later", "sources": []string{"shop"}, "webhooks": []any{map[string]any{"url": "http://127.0.0.1:9/later"}}, "enabled": false})
	for i, key := range []string{writeKey, otherKey, "shop-key"} {
		body := fmt.Sprintf(`{"batch":[{"type":"track","event":"E","userId":"u1","messageId":"m-%d-0"},{"type":"identify","userId":"u2","messageId":"m-%[1]d-1","traits":{"text":"üñí \" \u2028"}}]}`, i)
		require.Equal(t, http.StatusOK, harness.Post(t.Context(), http.DefaultClient, rig.URL+"/v1/batch", key, []byte(body)))
	}
	res, err := http.Post(rig.URL+"/api/v1/audiences/Big%20Spenders/syncs?source=web&destination=rests", "text/plain", strings.NewReader("u1\nu2\nu3\n"))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusCreated, res.StatusCode)
	waitFor(t, time.Minute, "the list is taken", func() bool { return rig.members(t) == 3 })
	ask("/deletions", map[string]any{"id": "gdpr-1", "userIds": []string{"u2"}})
	waitFor(t, time.Minute, "all is delivered, refused, tried or paused", func() bool {
		l.Ledgers = ledgers(t, rig.Collector)
		pending, delivered := rig.deletion(t)
		return l.Ledgers["takes"].Pending == 0 && l.Ledgers["refuses"].Pending == 0 && l.Ledgers["rests"].Pending > 0 &&
			delivered > 0 && pending > 0 && rig.members(t) == 2
	})
	l.Sources, l.Destinations, l.Members = rig.names(t, "sources"), rig.names(t, "destinations"), rig.members(t)
	return l
}

// TestFormatIsLeft checks that the data directories of a stopped and of a killed collector are
// readable.
func TestFormatIsLeft(t *testing.T) {
	t.Parallel()
	kept := cmp.Or(os.Getenv(formatsEnv), t.TempDir())
	if kept != os.Getenv(formatsEnv) {
		t.Logf("with %s=%s they are kept", formatsEnv, formatsDir)
	}
	for how, end := range map[string]func(c *harness.Collector) error{
		"stopped": func(c *harness.Collector) error { return c.Stop() },
		"killed":  func(c *harness.Collector) error { c.Kill(); return nil },
	} {
		dir := t.TempDir()
		rig := newFormatRig(t, dir, true)
		l := rig.fill(t)
		require.NoError(t, end(rig.Collector))
		name := filepath.Join(kept, fmt.Sprintf("%d-%s", datadir.MarkerFormat, how))
		text, err := json.MarshalIndent(l, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(kept, 0o755))
		require.NoError(t, os.WriteFile(name+".json", append(text, '\n'), 0o644))
		require.NoError(t, pack(name+".tar.gz", filepath.Join(dir, "data")))
	}
	readFormats(t, kept)
}

// TestFormatsAreRead checks that this version reads the data directories of all formats.
func TestFormatsAreRead(t *testing.T) {
	t.Parallel()
	require.FileExists(t, filepath.Join(formatsDir, fmt.Sprintf("%d-stopped.json", datadir.MarkerFormat)), "a new format: run make formats")
	readFormats(t, formatsDir)
}

func readFormats(t *testing.T, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, file := range found {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want left
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &want))
			work := t.TempDir()
			require.NoError(t, unpack(filepath.Join(dir, name+".tar.gz"), filepath.Join(work, "data")))
			readFormat(t, newFormatRig(t, work, false), want)
		})
	}
}

// readFormat asserts that a collector has the expected data and delivers pending calls.
func readFormat(t *testing.T, rig *formatRig, want left) {
	t.Helper()
	verify(t, rig.Collector)
	all := ledgers(t, rig.Collector)
	for _, name := range []string{"takes", "refuses", "rests", "later"} {
		assert.Equal(t, want.Ledgers[name], all[name], name)
	}
	assert.Equal(t, want.Sources, rig.names(t, "sources"))
	assert.Equal(t, want.Destinations, rig.names(t, "destinations"))
	assert.Equal(t, want.Members, rig.members(t))
	require.Equal(t, http.StatusOK, harness.Post(t.Context(), http.DefaultClient, rig.URL+"/v1/track", "shop-key",
		[]byte(`{"event":"New","userId":"u9","messageId":"new"}`)), "the source that was made still sends")
	require.NoError(t, rig.Ask(t.Context(), http.MethodPost, "/destinations/rests/resume", nil, nil))
	settled(t, rig.Collector)
	for _, name := range []string{"fails", "rests"} { // calls older than four hours have failed permanently, and can be replayed
		require.NoError(t, rig.Ask(t.Context(), http.MethodPost, "/destinations/"+name+"/replay", nil, nil))
	}
	all = settled(t, rig.Collector)
	for _, name := range []string{"fails", "rests"} {
		was := want.Ledgers[name]
		superseded := all[name].Filtered - was.Filtered // number of calls from an older list of the audience
		assert.Contains(t, []int64{0, 1}, superseded, name)
		assert.Equal(t, tracking.Ledger{Destination: name, Accepted: was.Accepted + 1, Delivered: was.Pending + 1 - superseded, Filtered: was.Filtered + superseded}, all[name])
		assert.Subset(t, slices.Collect(maps.Keys(rig.gotBy(name))), []string{"m-0-0", "m-0-1", "m-1-0", "m-1-1", "m-2-0", "m-2-1", "new"}, name)
	}
	// If the kill prevented the collector from storing an outcome, it sends the notification
	// again after a minute.
	waitFor(t, 5*time.Minute, "the deletion request is done", func() bool {
		pending, _ := rig.deletion(t)
		return pending == 0
	})
	verify(t, rig.Collector)
	require.NoError(t, rig.Stop())
}

// pack archives the files of a data directory, except those that a start creates: the lock, and
// the file that reserves space for a full disk.
func pack(archive, dir string) error {
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir || slices.Contains([]string{"journal.ballast", "journal.lock", "journal.holder"}, entry.Name()) {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Typeflag: tar.TypeReg}
		var data []byte
		if entry.IsDir() {
			h.Mode, h.Typeflag = 0o700, tar.TypeDir
		} else if data, err = os.ReadFile(path); err != nil {
			return err
		}
		h.Size = int64(len(data))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return z.Close()
}

// unpack extracts an archive that pack created.
func unpack(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
}
