package placement

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/text"
)

// obeyed are the annotations of a Binding that the transport obeys. The first is that of the user
// about holds.
var obeyed = [...]string{
	controlv1alpha1.AnnotationHold, controlv1alpha1.AnnotationRelease,
	controlv1alpha1.AnnotationApply, controlv1alpha1.AnnotationIgnoreFields, controlv1alpha1.AnnotationOnRemoval,
	pkgv1.AnnotationHeldObjects,
}

// Annotations are the annotations of a Binding that the transport obeys, parsed.
type Annotations struct {
	// Hold is which objects stay as they are in the mailboxes. If its annotation is invalid,
	// everything is held.
	Hold        plan.Hold
	HoldInvalid bool
	// Release is which clusters' works a Binding that is being deleted does not wait for.
	Release Release
	// Mistakes are what is wrong with the annotations. Sorted.
	Mistakes []string

	// texts are the values of the annotations in the order of obeyed, each after a "=" if the
	// annotation is present.
	texts [len(obeyed)]string
	// options are those of all objects that have no annotations of their own about it.
	options        options.Requested
	optionsInvalid bool
}

// HasHold reports whether the Binding has the annotation of the user about holds, whatever its
// value.
func (a *Annotations) HasHold() bool { return a.texts[0] != "" }

// AreOf reports whether these are the annotations of a Binding as it is now.
func (a *Annotations) AreOf(binding *controlv1alpha1.Binding) bool {
	return a.texts == textsOf(binding)
}

// Release says for which clusters' works a Binding that is being deleted does not wait.
type Release struct {
	All      bool
	Clusters []string
}

// Of reports whether the works of a cluster are released.
func (r Release) Of(cluster string) bool { return r.All || slices.Contains(r.Clusters, cluster) }

func textsOf(binding *controlv1alpha1.Binding) (texts [len(obeyed)]string) {
	for i, key := range obeyed {
		if value, ok := binding.Annotations[key]; ok {
			texts[i] = "=" + value
		}
	}
	return texts
}

// AnnotationsOf parses the annotations of a Binding.
func AnnotationsOf(binding *controlv1alpha1.Binding) Annotations {
	a := Annotations{texts: textsOf(binding)}
	mistake := func(prefix string, err error, consequence string) {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			a.Mistakes = append(a.Mistakes, prefix+Clip(line)+"; "+consequence)
		}
	}
	field := func(key string) string { return "metadata.annotations[" + key + "]: " }
	if value, ok := binding.Annotations[controlv1alpha1.AnnotationHold]; ok {
		var err error
		if a.Hold, err = plan.ParseHold(value); err != nil {
			a.HoldInvalid = true
			mistake(field(controlv1alpha1.AnnotationHold), err, "every object is held until this is corrected")
		}
	}
	if value, ok := binding.Annotations[pkgv1.AnnotationHeldObjects]; ok && binding.Name == pkgv1.HoldsBinding {
		if _, err := plan.ParseHolds(value); err != nil {
			mistake(field(pkgv1.AnnotationHeldObjects), err, "every object is held until the transactions controller corrects this")
		}
	}
	if value, ok := binding.Annotations[controlv1alpha1.AnnotationRelease]; ok {
		var err error
		if a.Release, err = parseRelease(value); err != nil {
			mistake(field(controlv1alpha1.AnnotationRelease), err, "the annotation releases nothing")
		}
	}
	var err error
	if a.options, err = options.Parse(binding.Annotations); err != nil {
		a.optionsInvalid = true
		mistake("", err, "every object stays as it was delivered until this is corrected")
	}
	slices.Sort(a.Mistakes)
	return a
}

var errRelease = errors.New(`want "force", or "clusters=" and names of clusters, separated by commas`)

// parseRelease parses the annotation that releases works by force.
func parseRelease(value string) (Release, error) {
	if strings.TrimSpace(value) == "force" {
		return Release{All: true}, nil
	}
	list, ok := strings.CutPrefix(strings.TrimSpace(value), "clusters=")
	if !ok {
		return Release{}, errRelease
	}
	var r Release
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return Release{}, fmt.Errorf("%q is not a cluster name: %w", name, errRelease)
		}
		r.Clusters = append(r.Clusters, name)
	}
	return r, nil
}

// maxText bounds each text in a status, in bytes.
const maxText = 512

// Clip returns a text as one line of bounded length.
func Clip(s string) string { return text.Clip(text.OneLine(s), maxText) }
