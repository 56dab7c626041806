package placement

import (
	"bytes"
	"fmt"

	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// resolveOptions sets the options of the objects of a Binding: those that annotations and the
// Binding ask for, and those that follow from other objects of the Binding. Where they are not
// known, the content is marked as not known either: then the object and its options stay as they
// were delivered. It returns the texts for the user about objects that wait for others.
func resolveOptions(objects []plan.Object, entries []entry, findings []finding, a *Annotations) (problems []string) {
	explicit := make([]bool, len(objects))
	for i := range objects {
		object := &objects[i]
		wanted := findings[i].options.WithDefaults(a.options)
		explicit[i] = wanted.SetsApply() || entries[i].createOnly
		object.Options = wanted.Options()
		object.Options.Orphan = object.Options.Orphan || options.NeverDeleted(object.Ref)
		if entries[i].createOnly {
			object.Options = options.Merge(object.Options, plan.Options{CreateOnly: true})
		}
		object.Known = object.Known && !a.optionsInvalid
	}

	scaled := map[options.Target]bool{}
	waits := map[options.Target]int{} // the targets of autoscalers that are not known
	unsure := map[string]int{}        // namespaces in which the target of an autoscaler is not known
	for i := range objects {
		ref := objects[i].Ref
		if !options.IsAutoscaler(ref) {
			continue
		}
		autoscaler := &objects[i].Object
		if seen := findings[i].autoscaler; seen != nil {
			autoscaler = seen
		}
		target, ok := options.TargetOf(autoscaler)
		switch {
		case ok && objects[i].Known:
			scaled[target] = true
		case ok:
			waits[target] = i
		case !objects[i].Known:
			unsure[ref.Namespace] = i
		}
	}
	for i := range objects {
		object := &objects[i]
		if explicit[i] || !object.Known {
			continue
		}
		target := options.Target{Kind: object.Kind.GroupKind(), Namespace: object.Ref.Namespace, Name: object.Ref.Name}
		by, waiting := waits[target]
		if !waiting && bytes.Contains(object.JSON, []byte(`"replicas":`)) {
			by, waiting = unsure[object.Ref.Namespace]
		}
		switch {
		case scaled[target]:
			object.Options = options.Scaled(object.Options)
		case waiting:
			object.Known = false
			if findings[by].err != nil {
				problems = append(problems, fmt.Sprintf("%s: not updated, because %s may scale it and cannot be delivered; its own error says why",
					object.Ref, objects[by].Ref))
			}
		}
	}
	return problems
}
