package users

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// What is too long for a record is stored before it, in parts under keys that no record
// names yet: prefix.id.upload.number. The name of the upload says who made it and when,
// so that one that came to nothing can be told from one that is under way.
const (
	segmentPrefix = "segment"       // of lists, under the IDs of computations
	chunkPrefix   = "deletionchunk" // of deletion requests, under their keys
	// uploadAge is after how long an upload that no record names is taken to be given
	// up, if the process that made it does not come back to say so.
	uploadAge = 24 * time.Hour
	// maxUploadTime is how long one can take: no record may name it when it could have
	// been deleted.
	maxUploadTime = uploadAge / 2
	// uploadTimeLen is how many characters the time in the name of an upload has.
	uploadTimeLen = 11
)

// newUpload names an upload: its time in hexadecimal, the process, and something random.
func (u *Service) newUpload() string {
	return fmt.Sprintf("%0*x%s%s", uploadTimeLen, time.Now().UnixMilli(), text.Digest(u.config.Instance), strings.ToLower(rand.Text()[:8]))
}

// uploadTime returns when an upload was begun; the zero time where that is not its name.
func uploadTime(upload string) time.Time {
	if len(upload) < uploadTimeLen {
		return time.Time{}
	}
	ms, err := strconv.ParseInt(upload[:uploadTimeLen], 16, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// givenUp reports whether an upload that no record names is under way no more: it is
// old, or an earlier run of this process made it.
func (u *Service) givenUp(upload string) bool {
	at := uploadTime(upload)
	return time.Since(at) > uploadAge ||
		strings.HasPrefix(upload[uploadTimeLen:], text.Digest(u.config.Instance)) && at.Before(u.started.Truncate(time.Millisecond))
}

// uploadKey is that of all parts of an upload.
func uploadKey(prefix, id, upload string) string { return prefix + "." + id + "." + upload }

func partKey(prefix, id, upload string, n int) string {
	return fmt.Sprintf("%s.%d", uploadKey(prefix, id, upload), n)
}
