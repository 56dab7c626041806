package variant

import (
	"fmt"
	"slices"

	"github.com/starlinghq/starling/pkg/core/text"
)

// maxRounds is how often files are written for the same inputs. The second round is needed if a
// function changes something once only.
const maxRounds = 2

// Rounds counts how often the files of one draft were written for the same inputs. The server
// renders what is written, and functions may change what the PackageVariant has set. Then it would
// be set and rendered again, without end. The zero value is ready for use.
type Rounds struct {
	inputs, version string
	count           int
	// refused stays the same: that an error is recorded in the draft changes its Kptfile too.
	refused error
}

// Begin returns an error if the files were already written maxRounds times for these inputs, and
// nobody else has written the draft since. Version is its resourceVersion. Files are those that
// would be changed.
func (r *Rounds) Begin(inputs, version string, files []string) error {
	if r.inputs != inputs || r.version != version {
		*r = Rounds{inputs: inputs, version: version}
	}
	if r.count < maxRounds {
		return nil
	}
	if r.refused == nil {
		slices.Sort(files)
		const shown = 5
		r.refused = fmt.Errorf("functions of the package change what the PackageVariant sets in %s, each time the package is rendered: "+
			"change spec, or exclude these objects from the functions", text.List(files, shown))
	}
	return r.refused
}

// Wrote records a write of the draft by its PackageVariant, with the resulting resourceVersion;
// files is true if its files were written.
func (r *Rounds) Wrote(version string, files bool) {
	r.version = version
	if files {
		r.count++
	}
}
