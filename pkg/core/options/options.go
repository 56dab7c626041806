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

// Requested is what annotations request. The zero value requests nothing. It is comparable.
type Requested struct {
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

// Parse reads annotations. The error has a line for each invalid annotation, with its valid values.
func Parse(annotations map[string]string) (Requested, error) {
	var r Requested
	var errs []error
	fail := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("metadata.annotations[%s]: "+format, append([]any{key}, args...)...))
	}
	if text, ok := annotations[controlv1alpha1.AnnotationApply]; ok {
		r.apply = apply(strings.TrimSpace(text))
		if !slices.Contains([]apply{update, serverSide, serverSideForce, createOnly}, r.apply) {
			fail(controlv1alpha1.AnnotationApply, "%q must be one of %s, %s, %s, %s", text, update, serverSide, serverSideForce, createOnly)
		}
	}
	if text, ok := annotations[controlv1alpha1.AnnotationIgnoreFields]; ok {
		paths, err := parsePaths(text)
		switch {
		case err != nil:
			fail(controlv1alpha1.AnnotationIgnoreFields, "%w", err)
		case len(paths) > 0 && (r.apply == update || r.apply == createOnly):
			fail(controlv1alpha1.AnnotationIgnoreFields, "only %s and %s can ignore fields; remove the annotation %s, or set it to one of these",
				serverSide, serverSideForce, controlv1alpha1.AnnotationApply)
		}
		r.ignored = strings.Join(paths, "\n")
	}
	if text, ok := annotations[controlv1alpha1.AnnotationOnRemoval]; ok {
		r.removal = removal(strings.TrimSpace(text))
		if r.removal != remove && r.removal != orphan {
			fail(controlv1alpha1.AnnotationOnRemoval, "%q must be %s or %s", text, remove, orphan)
		}
	}
	if len(errs) > 0 {
		return Requested{}, errors.Join(errs...)
	}
	return r, nil
}

// field matches valid paths: of fields inside of a top-level field.
var field = regexp.MustCompile(`^(\.[A-Za-z_$][A-Za-z0-9_$-]*){2,}$`)

// parsePaths reads a list of JSON paths. The result is sorted and has no duplicates.
func parsePaths(text string) ([]string, error) {
	separator := func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }
	var paths []string
	for path := range strings.FieldsFuncSeq(text, separator) {
		normal := "." + strings.TrimPrefix(strings.TrimPrefix(path, "$"), ".")
		if strings.ContainsAny(normal, `'"`) {
			return nil, fmt.Errorf("%q names a key in quotes, which cannot be ignored alone; name the field that has the key", path)
		}
		if strings.Contains(normal, "[") {
			return nil, fmt.Errorf("%q is in a list: a cluster cannot apply an element without its required fields. "+
				"Remove the path, or set the annotation %s to create-only", path, controlv1alpha1.AnnotationApply)
		}
		if !field.MatchString(normal) {
			return nil, fmt.Errorf("%q must be the path of a field inside a top-level field, such as .spec.replicas", path)
		}
		for _, part := range []string{".apiVersion.", ".kind.", ".metadata.name.", ".metadata.namespace."} {
			if strings.HasPrefix(normal+".", part) {
				return nil, fmt.Errorf("%q cannot be ignored, because it identifies the object; remove it from the list", path)
			}
		}
		paths = append(paths, normal)
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// WithDefaults returns r, with everything that r does not request taken from defaults.
func (r Requested) WithDefaults(defaults Requested) Requested {
	if !r.SetsApply() { // how to apply and what to ignore belong together
		r.apply, r.ignored = defaults.apply, defaults.ignored
	}
	if r.removal == "" {
		r.removal = defaults.removal
	}
	return r
}

// SetsApply reports whether r requests how the object is applied.
func (r Requested) SetsApply() bool { return r.apply != "" || r.ignored != "" }

// SetsRemoval reports whether r requests what becomes of the object when it is no longer delivered.
func (r Requested) SetsRemoval() bool { return r.removal != "" }

// Options returns the options that are requested. By default a cluster applies the object
// server-side and takes the ownership of all its fields: so it removes what the object no longer
// has, and leaves what others in the cluster added.
func (r Requested) Options() plan.Options {
	return plan.Options{
		CreateOnly:    r.apply == createOnly,
		Update:        r.apply == update,
		NoForce:       r.apply == serverSide,
		IgnoredFields: r.ignored,
		Orphan:        r.removal == orphan,
	}
}

// Merge returns the options of an object that several Bindings deliver to one cluster. The option
// that changes less in the cluster wins: createOnly over a server-side apply that fails at
// conflicts, that over one that does not, and all over an update; and orphaning over deletion. The
// ignored fields are united.
func Merge(a, b plan.Options) plan.Options {
	merged := plan.Options{
		CreateOnly: a.CreateOnly || b.CreateOnly,
		NoForce:    a.NoForce || b.NoForce,
		Update:     a.Update && b.Update,
		Orphan:     a.Orphan || b.Orphan,
		Observe:    a.Observe && b.Observe,
	}
	fields := slices.Concat(split(a.IgnoredFields), split(b.IgnoredFields))
	slices.Sort(fields)
	merged.IgnoredFields = strings.Join(slices.Compact(fields), "\n")
	if merged.CreateOnly {
		merged.NoForce, merged.Update, merged.IgnoredFields = false, false, ""
	}
	return merged
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
