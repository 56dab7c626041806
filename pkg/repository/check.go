package repository

import (
	"errors"
	"fmt"
	"strings"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// CheckFiles says why files from a repository are no package that can be had; "" if they are.
func CheckFiles(files kptpkg.Files) string {
	if wrong := files.Check(); len(wrong) > 0 {
		return strings.Join(wrong, "; ")
	}
	kptfile, ok := files[kptpkg.KptfileName]
	if !ok {
		return "has no " + kptpkg.KptfileName
	}
	if _, err := kptpkg.ParseKptfile(kptfile); err != nil {
		return fmt.Sprintf("%s: %s", kptpkg.KptfileName, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	// What is no YAML at all may be a template of some kind, and is carried as text.
	for _, name := range files.Paths() {
		if !kptpkg.IsKRM(name) {
			continue
		}
		var excessive *kptpkg.ExcessiveError
		if _, err := kptpkg.Documents(files[name]); errors.As(err, &excessive) {
			return fmt.Sprintf("%s: %v", name, err)
		}
	}
	return ""
}
