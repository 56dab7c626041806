package cli

import (
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/diff"
)

// printDiff prints what is delivered before and after, as a diff for each object in each group of
// clusters. Of Secrets, it has the names of the fields that differ.
func (p *Plan) printDiff(w io.Writer) error {
	for i := range p.Groups {
		g := &p.Groups[i]
		for j := range g.Items {
			item := &g.Items[j]
			if item.Verb == forecast.Keep {
				fmt.Fprintf(w, "# %s: %s\n", title(g, item), item.Why)
				continue
			}
			before, err := filesOf(item.Before)
			if err != nil {
				return err
			}
			after, err := filesOf(item.After)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "--- %s\n+++ %s (%s)\n", title(g, item), title(g, item), item.Verb)
			for _, entry := range diff.Packages(before, after) {
				fmt.Fprint(w, entry.Diff)
			}
			if item.Kind == "Secret" {
				for _, field := range item.Fields {
					fmt.Fprintf(w, "# %s differs\n", field.Path)
				}
			}
		}
	}
	return nil
}

// filesOf returns a package with nothing but the object.
func filesOf(object map[string]any) (kpt.Files, error) {
	if object == nil {
		return kpt.Files{}, nil
	}
	text, err := yaml.Marshal(object)
	return kpt.Files{"object.yaml": string(text)}, err
}
