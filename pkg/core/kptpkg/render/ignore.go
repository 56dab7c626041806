package render

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/functions"
)

// ignoreName is the name of files that say what kpt does not read as objects, in the language of .gitignore.
const ignoreName = ".krmignore"

type ignoreRule struct {
	dir     string
	pattern *regexp.Regexp
	// base is set for patterns of names alone, which match in all directories below.
	base, directory, not bool
}

// ignoreRules returns what tells whether a file is left alone.
func ignoreRules(files kptpkg.Files) (func(string) bool, error) {
	var rules []ignoreRule
	for _, name := range files.Paths() { // those of a directory come before those below it
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
		return ignored && path.Base(name) != kptpkg.KptfileName
	}, nil
}

// matches tells whether a rule is about a file, or about a directory that it is in.
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
