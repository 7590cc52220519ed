package users

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// Data that is too long for a record is uploaded in parts before the record is stored. The keys of
// the parts have the form prefix.id.upload.number. The name of the upload contains its time and
// process, so abandoned uploads can be recognized.
const (
	segmentPrefix = "segment"       // segments of lists; the ID is the computation's ID
	chunkPrefix   = "deletionchunk" // chunks of deletion requests; the ID is the key of the request
	// uploadAge is the age at which an upload without a record counts as abandoned. After a
	// restart of the process, its older uploads count as abandoned immediately.
	uploadAge = 24 * time.Hour
	// maxUploadTime is the maximum duration of an upload. A record must not refer to an upload
	// that took longer, because the upload may be deleted.
	maxUploadTime = uploadAge / 2
	// uploadTimeLen is the length of the time in an upload's name.
	uploadTimeLen = 11
)

// newUpload returns a new name: the time in hexadecimal, the process, and a random suffix.
func (u *Service) newUpload() string {
	return fmt.Sprintf("%0*x%s%s", uploadTimeLen, time.Now().UnixMilli(), text.Digest(u.config.Instance), strings.ToLower(rand.Text()[:8]))
}

// uploadTime returns the time in an upload's name, or the zero time if the name is invalid.
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

// abandoned reports whether an upload without a record is no longer in progress: the upload is
// old, or an earlier run of this process made it.
func (u *Service) abandoned(upload string) bool {
	at := uploadTime(upload)
	return time.Since(at) > uploadAge ||
		strings.HasPrefix(upload[uploadTimeLen:], text.Digest(u.config.Instance)) && at.Before(u.started.Truncate(time.Millisecond))
}

// uploadKey returns the common prefix of the keys of an upload.
func uploadKey(prefix, id, upload string) string { return prefix + "." + id + "." + upload }

func partKey(prefix, id, upload string, n int) string {
	return fmt.Sprintf("%s.%d", uploadKey(prefix, id, upload), n)
}
