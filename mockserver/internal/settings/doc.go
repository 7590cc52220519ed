// Package settings contains the settings that can change while a collector runs, sources and
// destinations, and their validation. Errors are one [webhook.FieldError] per problem, all
// at once.
//
// Settings in use are immutable: a change creates new ones.
package settings
