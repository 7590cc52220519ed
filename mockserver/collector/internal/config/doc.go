// Package config reads the configuration file of the collector.
//
// decode.go decodes YAML into a [Config] and records the position of each setting.
// expand.go resolves references to environment variables and files, and check.go checks
// the result. All problems are collected; each has a position, a setting and a fix.
package config
