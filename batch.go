package analytics

import (
	"context"
	"fmt"
	"maps"

	"github.com/seed-45eadc4a/analytics-go/internal/pipeline"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// Version is the version of the client.
const Version = "0.2.0"

// Size limits of the service.
const (
	MaxCallBytes  = 32768  // bytes of one call as JSON
	MaxBatchBytes = 512000 // bytes of one request body, before compression
)

// DefaultContext is the context of all batches unless Config.Context is set. Collectors
// merge it into each call. A client reads it at its first call, and adds an entry for
// library if it is missing. A MarshalJSON method of a value in it must not use a client,
// because the client waits for it.
var DefaultContext = map[string]interface{}{
	"library": map[string]interface{}{
		"name":    "analytics-go",
		"version": Version,
	},
}

// The compiler checks that the pipeline has the same limits.
var (
	_ = [1]int{}[MaxCallBytes-pipeline.MaxCallBytes]
	_ = [1]int{}[MaxBatchBytes-pipeline.MaxBatchBytes]
)

// maxContextBytes limits the batch context, because collectors merge it into each call.
const maxContextBytes = MaxCallBytes

// appendBatchContext appends the part of a request body between the last call and the batch ID.
func appendBatchContext(dst []byte, context map[string]interface{}) ([]byte, error) {
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

// RequestValues returns the values of Config.Value for the calls of a request, in the order of
// the calls. ctx is the context of the request. An http.RoundTripper can call it, for example one
// from Config.WrapTransport. It returns nil if Config.Value is not set, or if the request is not
// from a client.
func RequestValues(ctx context.Context) []interface{} { return pipeline.RequestValues(ctx) }
