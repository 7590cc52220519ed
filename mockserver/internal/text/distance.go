package text

import "strings"

// Closest returns the known name with the smallest edit distance to name, ignoring case. If all
// distances are greater than most, it returns "". It uses only the first 40 bytes of name.
func Closest(name string, known []string, most int) (best string) {
	name = strings.ToLower(name[:min(len(name), 40)])
	for _, k := range known {
		if d := EditDistance(name, strings.ToLower(k)); d <= most {
			best, most = k, d-1
		}
	}
	return best
}

// EditDistance returns the number of bytes to insert, delete or replace to change a into b.
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
