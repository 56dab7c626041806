package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestNumber(t *testing.T) {
	for name, want := range map[string]int{
		"v1": 1, "v10": 10, "v12345678": 12345678,
		"v0": 0, "v01": 0, "v": 0, "": 0, "1": 0, "v1.0": 0, "V1": 0, "v-1": 0, "v123456789": 0, "v99999999999999999999": 0, "main": 0,
	} {
		got, ok := Number(name)
		if ok != (want > 0) || (ok && got != want) {
			t.Errorf("%q: got %d, %t", name, got, ok)
		}
	}
}

func TestWorkspace(t *testing.T) {
	for name, want := range map[string]string{
		"main": "main", "v1": "v1", "v1.2.3": "v1-2-3", "release/1.0": "release-1-0", "Feature_X": "feature-x", "-a-": "a", "..": "", "": "",
		"ä": "", strings.Repeat("a", 70): strings.Repeat("a", 63), strings.Repeat("a", 62) + "--b": strings.Repeat("a", 62),
	} {
		got := Workspace(name)
		if got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
		if got != "" && len(validation.IsDNS1123Label(got)) > 0 {
			t.Errorf("%q became %q, which is no label", name, got)
		}
	}
}

func TestKindOf(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want Kind
	}{
		"Own":      {fmt.Errorf("sync: %w", Errorf(TooLarge, "x")), TooLarge},
		"Network":  {fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), Unreachable},
		"Deadline": {fmt.Errorf("read: %w", context.DeadlineExceeded), Unreachable},
		"Other":    {errors.New("x"), Other},
	} {
		if got := KindOf(tc.err); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestErrorIsOneBoundedLine(t *testing.T) {
	got := Errorf(Other, "a\n\tb\x00%s", strings.Repeat("ü", 1000)).Error()
	if strings.ContainsAny(got, "\n\t\x00") || len(got) > 600 || !strings.HasPrefix(got, "a b ") {
		t.Errorf("got %q", got)
	}
}
