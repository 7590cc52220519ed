// Package rows builds the list rows of the inspector and evaluates list filters.
package rows
