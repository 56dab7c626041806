package options

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// Annotations are those that a Wish is made of. They direct us, and are not delivered.
var Annotations = []string{controlv1alpha1.AnnotationApply, controlv1alpha1.AnnotationIgnoreFields, controlv1alpha1.AnnotationOnRemoval}

// Wish is what annotations ask for; the zero Wish asks for nothing. It is comparable.
type Wish struct {
	apply   apply
	ignored string // as in plan.Options
	removal removal
}

type apply string

const (
	update          apply = "update"
	serverSide      apply = "server-side"
	serverSideForce apply = "server-side-force"
	createOnly      apply = "create-only"
)

type removal string

const (
	remove removal = "delete"
	orphan removal = "orphan"
)

// Parse reads annotations. The error names each one that cannot be read, and what it should be, in a line of its own; then what
// is wished is not known.
func Parse(annotations map[string]string) (Wish, error) {
	var w Wish
	var errs []error
	fail := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("metadata.annotations[%s]: "+format, append([]any{key}, args...)...))
	}
	if text, ok := annotations[controlv1alpha1.AnnotationApply]; ok {
		w.apply = apply(strings.TrimSpace(text))
		if !slices.Contains([]apply{update, serverSide, serverSideForce, createOnly}, w.apply) {
			fail(controlv1alpha1.AnnotationApply, "%q must be one of %s, %s, %s, %s", text, update, serverSide, serverSideForce, createOnly)
		}
	}
	if text, ok := annotations[controlv1alpha1.AnnotationIgnoreFields]; ok {
		paths, err := parsePaths(text)
		switch {
		case err != nil:
			fail(controlv1alpha1.AnnotationIgnoreFields, "%w", err)
		case len(paths) > 0 && (w.apply == update || w.apply == createOnly):
			fail(controlv1alpha1.AnnotationIgnoreFields, "fields can be ignored by %s and %s only; leave %s away, or change it",
				serverSide, serverSideForce, controlv1alpha1.AnnotationApply)
		}
		w.ignored = strings.Join(paths, "\n")
	}
	if text, ok := annotations[controlv1alpha1.AnnotationOnRemoval]; ok {
		w.removal = removal(strings.TrimSpace(text))
		if w.removal != remove && w.removal != orphan {
			fail(controlv1alpha1.AnnotationOnRemoval, "%q must be %s or %s", text, remove, orphan)
		}
	}
	if len(errs) > 0 {
		return Wish{}, errors.Join(errs...)
	}
	return w, nil
}

// field is what a path may look like: OCM's agent takes the last step away from the map that the others lead to, splitting
// at dots. A field of the object itself cannot be taken away.
var field = regexp.MustCompile(`^(\.[A-Za-z_$][A-Za-z0-9_$-]*(\[(\d+|\*)\])*)+\.[A-Za-z_$][A-Za-z0-9_$-]*$`)

// parsePaths reads a list of JSON paths: sorted, each once.
func parsePaths(text string) ([]string, error) {
	separator := func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }
	var paths []string
	for path := range strings.FieldsFuncSeq(text, separator) {
		normal := "." + strings.TrimPrefix(strings.TrimPrefix(path, "$"), ".")
		if !field.MatchString(normal) {
			return nil, fmt.Errorf("%q must be the path of a field below another one, such as .spec.replicas or .spec.template.spec.containers[0].image", path)
		}
		for _, part := range []string{".apiVersion.", ".kind.", ".metadata.name.", ".metadata.namespace."} {
			if strings.HasPrefix(normal+".", part) {
				return nil, fmt.Errorf("%q is part of the object's identity", path)
			}
		}
		paths = append(paths, normal)
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// Over returns what is wished by w, and where it wishes nothing, by other.
func (w Wish) Over(other Wish) Wish {
	if w.apply == "" && w.ignored == "" { // the two belong together
		w.apply, w.ignored = other.apply, other.ignored
	}
	if w.removal == "" {
		w.removal = other.removal
	}
	return w
}

// SaysHow tells whether it says how the object is applied.
func (w Wish) SaysHow() bool { return w.apply != "" || w.ignored != "" }

// Options returns the options of an object for which this is wished. Where it does not say how the object is applied, rule does:
// what its kind needs.
func (w Wish) Options(rule plan.Options) plan.Options {
	o := rule
	if w.SaysHow() {
		o = plan.Options{IgnoredFields: w.ignored}
		switch w.apply {
		case createOnly:
			o.CreateOnly = true
		case serverSide:
			o.ServerSide = true
		case serverSideForce:
			o.ServerSide, o.Force = true, true
		case update, "":
			// Without further word, what is not ignored is ours.
			o.ServerSide, o.Force = w.ignored != "", w.ignored != ""
		}
	}
	o.Orphan = rule.Orphan || w.removal == orphan
	return o
}

// Merge returns the options of an object that several Bindings deliver to one cluster. What leaves more to the cluster wins:
// createOnly over a server-side apply over an update, ignored fields of any, and orphaning over deletion.
func Merge(a, b plan.Options) plan.Options {
	merged := plan.Options{
		CreateOnly: a.CreateOnly || b.CreateOnly,
		ServerSide: a.ServerSide || b.ServerSide,
		Force:      a.Force || b.Force,
		Orphan:     a.Orphan || b.Orphan,
		Observe:    a.Observe && b.Observe,
	}
	fields := slices.Concat(split(a.IgnoredFields), split(b.IgnoredFields))
	slices.Sort(fields)
	merged.IgnoredFields = strings.Join(slices.Compact(fields), "\n")
	if merged.CreateOnly {
		merged.ServerSide, merged.Force, merged.IgnoredFields = false, false, ""
	}
	return merged
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
