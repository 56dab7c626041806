package transport

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// heeded are the annotations of a Binding that the transport obeys.
var heeded = [...]string{
	controlv1alpha1.AnnotationHold, controlv1alpha1.AnnotationRelease,
	controlv1alpha1.AnnotationApply, controlv1alpha1.AnnotationIgnoreFields, controlv1alpha1.AnnotationOnRemoval,
}

// orders are what the annotations of a Binding say.
type orders struct {
	// texts are the annotations' values, in the order of heeded, each with a mark in front if it is there.
	texts [len(heeded)]string
	hold  plan.Hold
	// invalid tells that the annotation about holds cannot be read: then everything is held.
	invalid bool
	release release
	// wish is about all objects that wish nothing themselves; wishInvalid tells that it cannot be read.
	wish        options.Wish
	wishInvalid bool
	// mistakes are what is wrong with the annotations. Sorted.
	mistakes []string
}

// release says for which clusters' works a Binding that is being deleted need not wait.
type release struct {
	all      bool
	clusters []string
}

func (r release) of(cluster string) bool { return r.all || slices.Contains(r.clusters, cluster) }

func textsOf(binding *controlv1alpha1.Binding) (texts [len(heeded)]string) {
	for i, key := range heeded {
		if text, ok := binding.Annotations[key]; ok {
			texts[i] = "=" + text
		}
	}
	return texts
}

func ordersOf(binding *controlv1alpha1.Binding) orders {
	o := orders{texts: textsOf(binding)}
	problem := func(key string, err error, consequence string) {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			o.mistakes = append(o.mistakes, fmt.Sprintf("metadata.annotations[%s]: %s; %s", key, clip(line), consequence))
		}
	}
	if text, ok := binding.Annotations[controlv1alpha1.AnnotationHold]; ok {
		var err error
		if o.hold, err = plan.ParseHold(text); err != nil {
			o.invalid = true
			problem(controlv1alpha1.AnnotationHold, err, "until that is put right, everything is held")
		}
	}
	if text, ok := binding.Annotations[controlv1alpha1.AnnotationRelease]; ok {
		var err error
		if o.release, err = parseRelease(text); err != nil {
			problem(controlv1alpha1.AnnotationRelease, err, "it releases nothing")
		}
	}
	wish, err := options.Parse(binding.Annotations)
	if err != nil {
		o.wishInvalid = true
		for line := range strings.SplitSeq(err.Error(), "\n") {
			o.mistakes = append(o.mistakes, clip(line)+"; until that is put right, everything stays as it was delivered")
		}
	}
	o.wish = wish
	slices.Sort(o.mistakes)
	return o
}

var errRelease = errors.New(`want "force", or "clusters=" and names of clusters, separated by commas`)

// parseRelease reads the annotation that releases works by force.
func parseRelease(text string) (release, error) {
	if strings.TrimSpace(text) == "force" {
		return release{all: true}, nil
	}
	list, ok := strings.CutPrefix(strings.TrimSpace(text), "clusters=")
	if !ok {
		return release{}, errRelease
	}
	var r release
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return release{}, fmt.Errorf("%q is no name of a cluster: %w", name, errRelease)
		}
		r.clusters = append(r.clusters, name)
	}
	return r, nil
}
