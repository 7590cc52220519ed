package roster

import "sort"

// Find returns the entry of a user in segments that [Write] wrote, and whether there is
// one. It reads few of them: each begins with a whole user.
func Find(segments int, get func(number int) ([]byte, error), user string) (found Entry, ok bool, err error) {
	after := sort.Search(segments, func(n int) bool { // the first segment that begins behind the user
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
