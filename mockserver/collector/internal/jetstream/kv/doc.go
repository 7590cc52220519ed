// Package kv keeps settings and state in two buckets, as state.Store.
package kv
