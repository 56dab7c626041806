package remote

import (
	"errors"
	"fmt"
	"strings"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// CheckFiles returns why files from a repository are not a valid package, or "".
func CheckFiles(files kpt.Files) string {
	if wrong := files.Check(); len(wrong) > 0 {
		return strings.Join(wrong, "; ")
	}
	kptfile, ok := files[kpt.KptfileName]
	if !ok {
		return "the package has no " + kpt.KptfileName
	}
	if _, err := kpt.ParseKptfile(kptfile); err != nil {
		return fmt.Sprintf("%s: %v", kpt.KptfileName, err)
	}
	// A file that is not valid YAML may be a template of some kind, and is stored as text.
	for _, name := range files.Paths() {
		if !kpt.IsKRM(name) {
			continue
		}
		var wrong *kpt.LineError
		if _, err := kpt.Documents(files[name]); errors.As(err, &wrong) && wrong.Excessive {
			return fmt.Sprintf("%s: %v", name, err)
		}
	}
	return ""
}
