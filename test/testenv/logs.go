package testenv

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// logs yields the logs of the fleet's programs by their file names, in order.
func (f *Fleet) logs() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		paths, _ := filepath.Glob(filepath.Join(f.Dir, "logs", "*")) // its only error is a bad pattern
		for _, path := range paths {
			if data, err := os.ReadFile(path); err == nil && !yield(filepath.Base(path), string(data)) {
				return
			}
		}
	}
}

// dumpIfFailed logs the last errors in the logs of the fleet if the test failed. There are few, and
// they are short, so that the failure itself is still found among them.
func (f *Fleet) dumpIfFailed(t testing.TB) {
	t.Helper()
	if !t.Failed() {
		return
	}
	const most, width = 3, 240
	var out strings.Builder
	for name, log := range f.logs() {
		var last []string
		for line := range strings.Lines(log) {
			if isError.MatchString(line) {
				last = append(last[max(0, len(last)-most+1):], line)
			}
		}
		for _, line := range last {
			fmt.Fprintf(&out, "%s: %s\n", name, strings.TrimSpace(line[:min(len(line), width)]))
		}
	}
	t.Logf("the last errors in the logs of the fleet:\n%s", out.String())
}

// isError matches a line that klog, slog or zap logged as an error.
var isError = regexp.MustCompile(`^[EF]\d{4} |"level":"(?i:error|fatal)"`)

// panicked returns an error for each program of the fleet that has logged a panic. The programs
// recover from them and try again, so no test may notice.
func (f *Fleet) panicked() error {
	var errs []error
	for name, log := range f.logs() {
		if at := isPanic.FindStringIndex(log); at != nil {
			errs = append(errs, fmt.Errorf("%s: %s", name, log[at[0]:min(at[0]+5000, len(log))]))
		}
	}
	return errors.Join(errs...)
}

// isPanic matches how a runtime, or klog after a recovery, logs a panic.
var isPanic = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE)|Observed a panic|http: panic serving`)
