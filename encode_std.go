package analytics

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// This file stands in for the append encoder and is deleted with its arrival.

func appendString(dst []byte, s string) []byte {
	b, _ := json.Marshal(s)
	return append(dst, b...)
}

func appendMap(dst []byte, m map[string]interface{}, path string) ([]byte, error) {
	for k, v := range m {
		if _, err := json.Marshal(v); err != nil {
			return dst, fmt.Errorf("%s.%s: %w", path, k, err)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return dst, fmt.Errorf("%s: %w", path, err)
	}
	return append(dst, b...), nil
}

func appendTime(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
}

func appendID(dst []byte) []byte {
	var u [16]byte
	rand.Read(u[:])
	ms := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint64(u[:8], ms<<16|0x7000|uint64(u[6]&0x0f)<<8|uint64(u[7]))
	u[8] = u[8]&0x3f | 0x80
	s := hex.EncodeToString(u[:])
	return fmt.Appendf(dst, "%s-%s-%s-%s-%s", s[:8], s[8:12], s[12:16], s[16:20], s[20:])
}
