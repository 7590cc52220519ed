// Package kv keeps settings and state in two buckets, as state.Store and
// state.Store.
package kv
