package state

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// maxRecord limits the uncompressed size of a record, in bytes.
const maxRecord = 4 << 20

// A versioned record embeds a Header.
type versioned interface{ format() int }

// Header is embedded in each type of record.
type Header struct {
	Version int `json:"version"` // version of the record's format
}

func (h Header) format() int { return h.Version }

func encode(record any) ([]byte, error) {
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if err := json.NewEncoder(w).Encode(record); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

func decode[R versioned](encoded []byte, version int) (record R, err error) {
	r, err := gzip.NewReader(bytes.NewReader(encoded))
	if err != nil {
		return record, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxRecord))
	if err != nil {
		return record, err
	}
	if err := json.Unmarshal(plain, &record); err != nil {
		return record, err
	}
	if record.format() != version {
		return record, fmt.Errorf("unsupported version %d; this program supports version %d", record.format(), version)
	}
	return record, nil
}
