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
	"github.com/starlinghq/starling/pkg/core/transform"
)

const (
	// maxOutput bounds what one string may become: more than fits into an API object makes no sense.
	maxOutput = 1 << 20
	// maxErrors bounds the errors that are told of one object.
	maxErrors = 5
)

// Template is an object with templates in it. It is immutable and safe for concurrent use.
type Template struct {
	source transform.Object
	leaves []leaf
	// mentions are the properties that the templates name, sorted; nil if they may use any.
	mentions []string
}

// leaf is a string that is a template.
type leaf struct {
	path     path
	template *template.Template
	cost     cost
}

// Asks tells whether an object could ask for expansion; it costs next to nothing.
func Asks(source transform.Object) bool {
	return bytes.Contains(source.JSON, []byte("{{")) && bytes.Contains(source.JSON, []byte(controlv1alpha1.AnnotationExpandTemplates))
}

// Compile returns the templates of an object, nil if it does not ask for expansion or has none. An error means that some of them
// cannot be understood; it names each, and no content of Secrets.
func Compile(source transform.Object) (*Template, error) {
	if !Asks(source) {
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
	walk(nil, object, func(at path, text string) {
		if !strings.Contains(text, "{{") {
			return
		}
		if at.identifies() {
			failures.add(source.Ref, at, errors.New("is part of the object's identity, which must be the same in all clusters: it can be no template"), nil)
			return
		}
		parsed, err := template.New(name(source.Ref, at)).Option("missingkey=error").Funcs(functions).Parse(text)
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

// Key identifies what an expansion depends on: equal keys have equal results.
type Key struct{ source, values transform.Hash }

// Key returns that of the expansion for a cluster.
func (t *Template) Key(p *Properties) Key { return Key{t.source.Hash, p.digest(t.mentions)} }

// Expand returns the object as it goes to a cluster with these properties. An error names each field that cannot be expanded, and
// no content of Secrets.
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
		return nil, errors.New("cannot be decoded") // it was encoded by us; the error could quote it
	}
	return object, nil
}

var errTooManyLoops = errors.New("the templates of the object loop too often for the number of properties of the cluster")

// name is what a template is called in error texts.
func name(ref objref.Ref, at path) string { return ref.GroupResource().String() + at.String() }

var errTooLong = fmt.Errorf("becomes longer than %d bytes", maxOutput)

// limited is a buffer that takes only so much.
type limited struct{ strings.Builder }

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxOutput {
		return 0, errTooLong
	}
	return l.Builder.Write(p)
}

// failures are what is wrong with the fields of an object.
type failures struct {
	errs []error
	more int
}

// add notes a failure. Details may quote the object.
func (f *failures) add(ref objref.Ref, at path, what, details error) {
	switch {
	case len(f.errs) == maxErrors:
		f.more++
	case details == nil:
		f.errs = append(f.errs, fmt.Errorf("%s %w", at, what))
	case ref.Group == "" && ref.Resource == "secrets":
		f.errs = append(f.errs, fmt.Errorf("%s %w (text withheld: the object is a Secret)", at, what))
	default:
		f.errs = append(f.errs, fmt.Errorf("%s %w: %s", at, what, strings.TrimPrefix(details.Error(), "template: ")))
	}
}

func (f *failures) err() error {
	if len(f.errs) == 0 {
		return nil
	}
	texts := make([]string, 0, len(f.errs)+1)
	for _, err := range f.errs {
		texts = append(texts, err.Error())
	}
	if f.more > 0 {
		texts = append(texts, fmt.Sprintf("… and %d more", f.more))
	}
	return errors.New(strings.Join(texts, "; "))
}
