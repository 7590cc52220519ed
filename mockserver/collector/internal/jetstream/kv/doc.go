// Package kv keeps settings and state in two buckets, as mockserver.SettingsStore and
// state.Store.
package kv
