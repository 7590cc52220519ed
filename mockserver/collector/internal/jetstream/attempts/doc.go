// Package attempts stores a log of delivery attempts. It drops and counts records that it
// cannot store.
package attempts
