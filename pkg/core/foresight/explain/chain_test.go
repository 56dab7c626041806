package explain

import "testing"

// TestMask: names of clusters that are parts of other words do not separate them.
func TestMask(t *testing.T) {
	t.Parallel()
	for _, tc := range [][3]string{
		{"cluster a cannot apply", "a", "cluster \x00 cannot apply"},
		{"c1: c10 c1-1 c1", "c1", "\x00: c10 c1-1 \x00"},
		{"nothing", "", "nothing"},
	} {
		if got := Mask(tc[0], tc[1]); got != tc[2] {
			t.Errorf("Mask(%q, %q) = %q, want %q", tc[0], tc[1], got, tc[2])
		}
	}
}
