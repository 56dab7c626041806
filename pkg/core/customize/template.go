package customize

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"

	kjson "k8s.io/apimachinery/pkg/util/json"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transform"
)

const (
	// maxOutput limits the bytes of one expanded string: an API object cannot hold more.
	maxOutput = 1 << 20
	// maxErrors limits the errors that are reported for one object.
	maxErrors = 5
)

// Template is an object with templates in it. It is immutable and safe for concurrent use.
type Template struct {
	source transform.Object
	leaves []leaf
	// mentions are the properties that the templates name, sorted; nil if they may use any.
	mentions []string
}

// leaf is a string with a template.
type leaf struct {
	path     path
	template *template.Template
	cost     cost
}

// MayHave reports whether an object may have templates. It is much cheaper than Compile.
func MayHave(source transform.Object) bool {
	return bytes.Contains(source.JSON, []byte("{{")) && bytes.Contains(source.JSON, []byte(controlv1alpha1.AnnotationExpandTemplates))
}

// Compile returns the templates of an object, nil if the object has none or does not request their
// expansion. The error names each invalid template, and contains no content of Secrets.
func Compile(source transform.Object) (*Template, error) {
	if !MayHave(source) {
		return nil, nil
	}
	object, err := decode(source)
	if err != nil {
		return nil, err
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations[controlv1alpha1.AnnotationExpandTemplates] != "true" {
		return nil, nil
	}
	t := &Template{source: source, mentions: []string{}}
	var failures failures
	walk(nil, object, func(at path, value string) {
		if !strings.Contains(value, "{{") {
			return
		}
		if at.identifies() {
			failures.add(source.Ref, at, errors.New("cannot be a template, because it identifies the object and must be the same in all clusters"), nil)
			return
		}
		parsed, err := template.New(name(source.Ref, at)).Option("missingkey=error").Funcs(functions).Parse(value)
		if err != nil {
			failures.add(source.Ref, at, errors.New("cannot be parsed as a template"), err)
			return
		}
		inspected, err := inspect(parsed)
		if err != nil {
			failures.add(source.Ref, at, err, nil)
			return
		}
		if inspected.all {
			t.mentions = nil
		} else if t.mentions != nil {
			t.mentions = append(t.mentions, inspected.mentions...)
		}
		t.leaves = append(t.leaves, leaf{path: slices.Clone(at), template: parsed, cost: inspected.cost})
	})
	if err := failures.err(); err != nil {
		return nil, err
	}
	if len(t.leaves) == 0 {
		return nil, nil
	}
	if t.mentions != nil {
		slices.Sort(t.mentions)
		t.mentions = slices.Compact(t.mentions)
	}
	return t, nil
}

// Key identifies the input of an expansion: equal keys have equal results.
type Key struct{ source, values transform.Hash }

// Key returns the key of the expansion with these properties.
func (t *Template) Key(p *Properties) Key { return Key{t.source.Hash, p.digest(t.mentions)} }

// Expand returns the object for a cluster with these properties. The error names each field that
// cannot be expanded, and contains no content of Secrets.
func (t *Template) Expand(p *Properties) (transform.Object, error) {
	object, err := decode(t.source)
	if err != nil {
		return transform.Object{}, err
	}
	var failures failures
	total := 0
	for i := range t.leaves {
		l := &t.leaves[i]
		cost := l.cost.of(len(p.values))
		if total += min(cost, maxCost); total > maxTotal {
			return transform.Object{}, errTooManyLoops
		}
		if cost > maxCost {
			failures.add(t.source.Ref, l.path, errors.New("loops too often for the number of properties of the cluster"), nil)
			continue
		}
		var out limited
		if err := l.template.Execute(&out, p.values); err != nil {
			if errors.Is(err, errTooLong) {
				failures.add(t.source.Ref, l.path, errTooLong, nil)
			} else {
				failures.add(t.source.Ref, l.path, errors.New("cannot be expanded"), err)
			}
			continue
		}
		l.path.set(object, out.String())
	}
	if err := failures.err(); err != nil {
		return transform.Object{}, err
	}
	return transform.Pipeline{}.Apply(t.source.Ref, object)
}

func decode(source transform.Object) (map[string]any, error) {
	var object map[string]any
	if err := kjson.Unmarshal(source.JSON, &object); err != nil {
		return nil, errors.New("cannot be decoded") // our own JSON; the cause could quote a Secret
	}
	return object, nil
}

var errTooManyLoops = errors.New("the templates of the object loop too often for the number of properties of the cluster")

// name returns the name of a template in errors.
func name(ref objref.Ref, at path) string { return ref.GroupResource().String() + at.String() }

var errTooLong = fmt.Errorf("becomes longer than %d bytes", maxOutput)

// limited is a buffer of at most maxOutput bytes.
type limited struct{ strings.Builder }

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxOutput {
		return 0, errTooLong
	}
	return l.Builder.Write(p)
}

// failures are the errors of the fields of an object.
type failures []string

// add adds an error. Details may quote the object, so they are omitted for Secrets.
func (f *failures) add(ref objref.Ref, at path, what, details error) {
	message := at.String() + " " + what.Error()
	switch {
	case details == nil:
	case ref.Group == "" && ref.Resource == "secrets":
		message += " (text withheld: the object is a Secret)"
	default:
		message += ": " + strings.TrimPrefix(details.Error(), "template: ")
	}
	*f = append(*f, message)
}

func (f failures) err() error {
	if len(f) == 0 {
		return nil
	}
	return errors.New(text.Join(f, "; ", maxErrors))
}
