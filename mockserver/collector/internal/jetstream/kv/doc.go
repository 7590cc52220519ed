// Package kv stores settings and state in two JetStream buckets. It implements state.Store.
package kv
