package access

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

const (
	// minCompressed is the size in bytes from which a body is compressed. A smaller body fits
	// into one packet anyway.
	minCompressed = 1400
	// compression is the level for bodies that are compressed for each request. It takes 0.9 ms
	// for a page of 226 KB and yields 16.7 KB. The default level takes 6.2 ms for 15.4 KB.
	compression = 2
)

// A packer compresses one body at a time.
type packer struct {
	out  bytes.Buffer
	gzip *gzip.Writer
}

var packers = sync.Pool{New: func() any {
	p := &packer{}
	p.gzip, _ = gzip.NewWriterLevel(&p.out, compression) // fails only for an invalid level
	return p
}}

// pack returns a compressed body, which is valid until the packer is reused.
func (p *packer) pack(body []byte) []byte {
	p.out.Reset()
	p.gzip.Reset(&p.out)
	_, _ = p.gzip.Write(body) // writing to a buffer cannot fail
	_ = p.gzip.Close()
	return p.out.Bytes()
}

// WriteBody writes a response. It compresses a large body if the client accepts gzip.
func WriteBody(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if len(body) >= minCompressed && acceptsGzip(r) {
		p := packers.Get().(*packer)
		defer packers.Put(p)
		body = p.pack(body)
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}

// acceptsGzip reports whether the client of a request can read gzip.
func acceptsGzip(r *http.Request) bool {
	for _, value := range r.Header.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(value, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") {
				_, q, weighted := strings.Cut(weight, "=")
				n, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
				return !weighted || err == nil && n > 0
			}
		}
	}
	return false
}
