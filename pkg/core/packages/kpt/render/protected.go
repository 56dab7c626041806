package render

import (
	"crypto/sha256"
	"fmt"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
)

// protected is a field that functions do not change, because another owner sets it: of a Kptfile,
// the pipeline and the upstream; of an injection point with an injected object, what was injected.
// If functions changed it, its owner would set it again after each render, without end.
type protected struct {
	field string
	// value is a copy; nil if there is no such field.
	value *yaml.Node
	print fingerprint
}

// protectedFields returns the fields of an object, as it was read, that functions do not change.
func protectedFields(item functions.Item) []protected {
	var names []string
	root := kpt.Content(item.Node.YNode())
	annotation := func(key string) string { return kpt.TextOf(kpt.Get(root, "metadata", "annotations", key)) }
	switch {
	case path.Base(item.Path) == kpt.KptfileName:
		names = []string{"pipeline", "upstream", "upstreamLock"}
	case annotation(configv1alpha1.AnnotationConfigInjection) != "" &&
		annotation(configv1alpha1.AnnotationInjectedResource)+annotation(configv1alpha1.AnnotationInjectedResourceOfPorch) != "":
		names = []string{kpt.InjectedField(item.APIVersion(), item.Kind())}
	}
	var fields []protected
	for _, name := range names {
		value := kpt.Get(root, name)
		p := protected{field: name, print: fingerprintOfField(value)}
		if value != nil {
			p.value = copyOf(value)
		}
		fields = append(fields, p)
	}
	return fields
}

// restore sets the protected fields to their values again, and returns a warning for each that was
// changed.
func (o *object) restore() []porchv1alpha1.ResultItem {
	var warnings []porchv1alpha1.ResultItem
	for i := range o.protected {
		p := &o.protected[i]
		root := kpt.Content(o.Node.YNode())
		if root == nil || root.Kind != yaml.MappingNode || fingerprintOfField(kpt.Get(root, p.field)) == p.print {
			continue
		}
		value := p.value
		if value != nil {
			value = copyOf(value)
		}
		kpt.Set(root, p.field, value)
		warnings = append(warnings, porchv1alpha1.ResultItem{
			Severity: functions.Warning, Message: fmt.Sprintf("functions must not change %s; the change was dropped", p.field),
			ResourceRef: &porchv1alpha1.ResourceIdentifier{
				TypeMeta: metav1.TypeMeta{APIVersion: o.APIVersion(), Kind: o.Kind()}, Name: o.Name(), Namespace: o.Namespace(),
			},
			Field: &porchv1alpha1.Field{Path: p.field}, File: &porchv1alpha1.File{Path: o.Path, Index: o.Index},
		})
	}
	return warnings
}

func fingerprintOfField(n *yaml.Node) fingerprint { return sha256.Sum256(appendNode(nil, n)) }
