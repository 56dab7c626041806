// Command check compares the rights in config/rbac with those that the end-to-end tests used, and
// fails if one was not used and test/rights/allowed.yaml has no reason for it. Its argument is the
// directory that was STARLING_AUDIT_DIR of all tests.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/test/rights"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/rights/check DIR")
		os.Exit(2)
	}
	problems, err := check(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func check(dir string) ([]string, error) {
	granted, err := rights.Granted("config/rbac")
	if err != nil {
		return nil, err
	}
	const list = "test/rights/allowed.yaml"
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	var allowed []rights.Allowed
	if err := yaml.UnmarshalStrict(text, &allowed); err != nil {
		return nil, fmt.Errorf("read %q: %w", list, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no test has recorded which rights were used in %q: %w", dir, err)
	}
	uses := map[rights.Right]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var some []rights.Right
		if err := json.Unmarshal(text, &some); err != nil {
			return nil, fmt.Errorf("read %q: %w", file, err)
		}
		for _, u := range some {
			uses[u] = true
		}
	}
	fmt.Printf("%d rights granted, %d uses in %d fleets, %d entries in the allow-list\n", len(granted), len(uses), len(files), len(allowed))
	return rights.Compare(granted, rights.Sorted(uses), allowed), nil
}
