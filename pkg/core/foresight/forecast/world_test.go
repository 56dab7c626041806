package forecast

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/settings"
)

// parse parses "a=1,b=2".
func parse(text string) map[string]string {
	found := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if key, value, is := strings.Cut(pair, "="); is {
			found[key] = value
		}
	}
	return found
}

// newWorld returns a World without anything.
func newWorld() *World {
	w := World{
		Policies: map[string]*controlv1alpha1.BindingPolicy{}, Bindings: map[string]*controlv1alpha1.Binding{}, Objects: map[objref.Ref]*Object{},
		Transforms: map[string]*controlv1alpha1.CustomTransform{}, Clusters: map[string]*Cluster{}, Unread: map[schema.GroupResource]bool{}, UnreadGroups: map[string]bool{},
	}
	w.Settings.Bindings, w.Settings.Transport = settings.Defaults()
	return w.Clone()
}

// policy sets a policy that selects objects and clusters by labels.
func (w *World) policy(name, objects, clusters string, annotations ...string) {
	p := &controlv1alpha1.BindingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Finalizers: []string{controlv1alpha1.BindingPolicyFinalizer}}}
	p.Spec.ClusterSelectors = []metav1.LabelSelector{{MatchLabels: parse(clusters)}}
	p.Spec.Downsync = []controlv1alpha1.DownsyncPolicyClause{{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{
		ObjectSelectors: []metav1.LabelSelector{{MatchLabels: parse(objects)}},
	}}}
	p.Annotations = parse(strings.Join(annotations, ","))
	w.Policies[name] = p
}

var kinds = map[string]match.Resource{
	"ConfigMap": {GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap"},
	"Secret":    {GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret"},
	"Namespace": {GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Kind: "Namespace"},
	"Widget":    {GroupVersionResource: schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}, Kind: "Widget"},
	"CustomResourceDefinition": {
		GroupVersionResource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, Kind: "CustomResourceDefinition",
	},
}

// refTo returns the object "Kind/name" or "Kind/namespace/name".
func refTo(name string) (objref.Ref, match.Resource) {
	parts := strings.Split(name, "/")
	resource := kinds[parts[0]]
	if len(parts) == 3 {
		return objref.New(resource.GroupResource(), parts[1], parts[2]), resource
	}
	return objref.New(resource.GroupResource(), "", parts[1]), resource
}

// object sets an object with labels and data. Data with "{{" is a template.
func (w *World) object(name, labels, data string) {
	ref, resource := refTo(name)
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": resource.Kind, "metadata": map[string]any{"name": ref.Name},
	}}
	if ref.Namespace != "" {
		o.SetNamespace(ref.Namespace)
	}
	o.SetLabels(parse(labels))
	if data != "" {
		_ = unstructured.SetNestedStringMap(o.Object, parse(data), "data")
	}
	if strings.Contains(data, "{{") {
		o.SetAnnotations(map[string]string{controlv1alpha1.AnnotationExpandTemplates: "true"})
	}
	w.Objects[ref] = &Object{Resource: resource, Meta: o, Read: true}
}

// cluster sets a cluster. Its labels are also its properties.
func (w *World) cluster(name, labels string) {
	w.Clusters[name] = &Cluster{State: inventory.Accepted, Labels: parse(labels), Properties: customize.NewProperties(name, parse(labels))}
}

// refuse sets a cluster that is not accepted.
func (w *World) refuse(name, labels string) {
	w.Clusters[name] = &Cluster{State: inventory.Absent, Labels: parse(labels), Refused: "is not accepted"}
}

// configure sets the ConfigMap with the properties of a cluster.
func (w *World) configure(name, data string) {
	c := *w.Clusters[name]
	c.Sources = &Sources{Data: parse(data)}
	c.Properties = customize.NewProperties(name, c.Labels, c.Sources.Data)
	w.Clusters[name] = &c
}

// hold lets a Transaction hold an object in clusters, or in all.
func (w *World) hold(name string, clusters ...string) {
	ref, _ := refTo(name)
	b := &controlv1alpha1.Binding{}
	b.Name, b.UID = pkgv1.HoldsBinding, "uid-holds"
	text := plan.EncodeHolds([]plan.TransactionHold{plan.NewTransactionHold(plan.Holder{Transaction: "tx-1"}, []objref.Ref{ref}, clusters)})
	b.Annotations = map[string]string{pkgv1.AnnotationHeldObjects: text}
	w.Bindings[b.Name] = b
}

// bound returns the World with the Bindings that binding-controller makes of it.
func (w *World) bound() *World {
	c := w.Clone()
	c.Bindings = settle(w, nil).bindings
	return c
}

// lines returns a Forecast, one line for each group and item.
func (f *Forecast) lines() []string {
	var lines []string
	for i := range f.Policies {
		p := &f.Policies[i]
		line := "policy " + p.Name + ":"
		for _, part := range []struct {
			sign string
			n    int
			what string
		}{
			{"+", len(p.Gained), "clusters"}, {"-", len(p.Lost), "clusters"}, {"+", len(p.ObjectsGained), "objects"}, {"-", len(p.ObjectsLost), "objects"},
		} {
			if part.n > 0 {
				line += fmt.Sprintf(" %s%d %s", part.sign, part.n, part.what)
			}
		}
		if p.Blocked != nil {
			line += fmt.Sprintf(" blocked: %d of %d clusters", len(p.Blocked.Clusters), p.Blocked.Of)
		}
		if len(p.Mistakes)+len(p.Refused) > 0 {
			line += " " + strings.Join(append(p.Mistakes, p.Refused...), "; ")
		}
		lines = append(lines, line)
	}
	for _, g := range f.Groups {
		lines = append(lines, strings.Join(g.Clusters, ",")+fmt.Sprintf(": %d works", g.Works))
		for i := range g.Items {
			item := &g.Items[i]
			line := fmt.Sprintf("  %s %s %s", item.Verb, item.Kind, strings.TrimPrefix(item.Ref.Namespace+"/"+item.Ref.Name, "/"))
			for _, field := range item.Fields {
				line += fmt.Sprintf(" %s: %v -> %v", field.Path, field.Before, field.After)
			}
			if item.Conflict {
				line += " CONFLICT"
			}
			if item.Why != "" {
				line += " (" + item.Why + ")"
			}
			lines = append(lines, line)
		}
		for _, text := range append(g.Warnings, g.Unavailable...) {
			lines = append(lines, "  ! "+text)
		}
	}
	return lines
}

// forecastOf returns the Forecast for Worlds of which all is read.
func forecastOf(t testing.TB, before, after *World) *Forecast {
	t.Helper()
	c := Compare(before, after)
	if needs, _ := c.Needs(); len(needs) > 0 {
		t.Fatalf("all is read, and yet needs %v", needs)
	}
	return c.Forecast()
}
