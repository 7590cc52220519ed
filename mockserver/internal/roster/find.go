package roster

import "sort"

// Find searches for a user in segments written by [Write]. It returns the entry, and reports
// whether it exists. It uses binary search, because each segment begins with a complete user ID.
func Find(segments int, get func(number int) ([]byte, error), user string) (found Entry, ok bool, err error) {
	after := sort.Search(segments, func(n int) bool { // the first segment that begins after the user
		if err != nil {
			return true
		}
		segment, failed := get(n)
		for first, wrong := range entries(segment, failed) {
			err = wrong
			return wrong != nil || first.User > user
		}
		return true
	})
	if err != nil || after == 0 {
		return Entry{}, false, err
	}
	segment, err := get(after - 1)
	for e, err := range entries(segment, err) {
		if err != nil || e.User == user {
			return e, err == nil, err
		}
	}
	return Entry{}, false, nil
}
