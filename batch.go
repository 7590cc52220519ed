package analytics

import (
	"context"
	"fmt"
	"maps"

	"github.com/seed-45eadc4a/analytics-go/internal/pipeline"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// Version of the client.
const Version = "0.2.0"

// Limits of the service.
const (
	MaxCallBytes  = 32768  // of one call as JSON
	MaxBatchBytes = 512000 // of one request's body, before compression
)

// DefaultContext is the context of every batch, which applies to each of its calls. It
// is read at the first call of a client. If it has no entry for library, the client adds
// its own on the wire. A MarshalJSON in it must not use a client: the client waits for it.
var DefaultContext = map[string]interface{}{
	"library": map[string]interface{}{
		"name":    "analytics-go",
		"version": Version,
	},
}

// These compile only if the pipeline has the same limits.
var (
	_ = [1]int{}[MaxCallBytes-pipeline.MaxCallBytes]
	_ = [1]int{}[MaxBatchBytes-pipeline.MaxBatchBytes]
)

// maxContextBytes bounds the batch context, which collectors merge into
// each call.
const maxContextBytes = MaxCallBytes

// appendMiddle appends the part of a body between the last call and the message id of
// the batch.
func appendMiddle(dst []byte, context map[string]interface{}) ([]byte, error) {
	if context == nil {
		context = DefaultContext
	}
	if _, ok := context["library"]; !ok {
		with := map[string]interface{}{"library": map[string]interface{}{"name": "analytics-go", "version": Version}}
		maps.Copy(with, context)
		context = with
	}
	dst = append(dst, `],"context":`...)
	dst, err := wire.AppendMap(dst, context, "context")
	if err != nil {
		return nil, fmt.Errorf("analytics: batch %w", err)
	}
	dst = append(dst, `,"messageId":"`...)
	if n := len(dst); n > maxContextBytes {
		return nil, fmt.Errorf("analytics: the batch context is %d bytes as JSON, over the limit of %d", n, maxContextBytes)
	}
	return dst, nil
}

// RequestValues returns what Config.Value returned for each call of the batch in a
// request, in the order of the calls, given the request's context. It is for an
// http.RoundTripper, such as one of Config.WrapTransport. It returns nil if Config.Value
// is not set, or the request is not of a client.
func RequestValues(ctx context.Context) []interface{} { return pipeline.RequestValues(ctx) }
