package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWithProtocol(t *testing.T) {
	for address, want := range map[string]string{
		"localhost:3000/hook?a=b": "http://localhost:3000/hook?a=b", "[::1]:3000": "http://[::1]:3000", "collector:8765": "http://collector:8765",
		"example.com/hook": "https://example.com/hook", "203.0.113.5:8765": "https://203.0.113.5:8765", "http://example.com": "http://example.com", "user:secret@localhost": "user:secret@localhost",
		"": "", "/hook": "/hook", ":8765": ":8765", "ftp://localhost": "ftp://localhost",
	} {
		assert.Equal(t, want, withProtocol(address))
	}
}
