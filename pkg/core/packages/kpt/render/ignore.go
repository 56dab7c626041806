package render

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
)

// ignoreName is the name of files that list the files that kpt does not read as objects, in the
// format of .gitignore.
const ignoreName = ".krmignore"

type ignoreRule struct {
	dir     string
	pattern *regexp.Regexp
	// base is true for patterns without a slash, which match in all directories below.
	base, directory, not bool
}

// ignoreRules returns a function that reports whether a file is ignored.
func ignoreRules(files kpt.Files) (func(string) bool, error) {
	var rules []ignoreRule
	for _, name := range files.Paths() { // files of a directory precede those of its subdirectories
		if path.Base(name) != ignoreName {
			continue
		}
		dir := strings.TrimSuffix(strings.TrimSuffix(name, ignoreName), "/")
		for line := range strings.Lines(files[name]) {
			line = strings.TrimRight(line, " \t\r\n")
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			rule := ignoreRule{dir: dir}
			line, rule.not = strings.CutPrefix(line, "!")
			line, rule.directory = strings.CutSuffix(line, "/")
			rule.base = !strings.Contains(line, "/")
			pattern, err := functions.Glob(strings.TrimPrefix(line, "/"))
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", name, line, err)
			}
			rule.pattern = pattern
			rules = append(rules, rule)
		}
	}
	return func(name string) bool {
		ignored := false
		for _, rule := range rules {
			if rule.matches(name) {
				ignored = !rule.not
			}
		}
		return ignored && path.Base(name) != kpt.KptfileName
	}, nil
}

// matches reports whether a rule matches a file, or a directory above it.
func (r ignoreRule) matches(name string) bool {
	if r.dir != "" {
		below, ok := strings.CutPrefix(name, r.dir+"/")
		if !ok {
			return false
		}
		name = below
	}
	for at, file := name, true; at != "."; at, file = path.Dir(at), false {
		tested := at
		if r.base {
			tested = path.Base(at)
		}
		if !(file && r.directory) && r.pattern.MatchString(tested) {
			return true
		}
	}
	return false
}
