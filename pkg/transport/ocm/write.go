package ocm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/pkg/works"
)

// manifestWork returns the ManifestWork that an Action creates, and the hash recorded in it.
func (p *Plugin) manifestWork(origin plugin.Origin, a *plan.Action) (*workv1.ManifestWork, transform.Hash, error) {
	work := &workv1.ManifestWork{
		TypeMeta: metav1.TypeMeta{APIVersion: workv1.GroupVersion.String(), Kind: "ManifestWork"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Mailbox,
			Name:      a.Name,
			Labels: map[string]string{
				controlv1alpha1.LabelBindingName: labelValue(origin.Binding),
				controlv1alpha1.LabelWDSName:     labelValue(p.config.WDSName),
				controlv1alpha1.LabelWDSUID:      string(p.config.WDSUID),
				controlv1alpha1.LabelBindingUID:  string(origin.BindingUID),
				controlv1alpha1.LabelWave:        strconv.Itoa(a.Wave),
			},
		},
		Spec: works.Remainder(a.After),
	}
	for i := range a.After {
		object := a.After[i].Object
		if object == nil {
			return nil, transform.Hash{}, fmt.Errorf("no content of %s", a.After[i].Ref)
		}
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: object.JSON}})
	}
	hash := works.Hash(items(a.After), &work.Spec)
	work.Annotations = annotations(origin, a.After, hash)
	return work, hash, nil
}

// annotations returns our annotations on a work that holds these objects.
func annotations(origin plugin.Origin, after []plan.Entry, hash transform.Hash) map[string]string {
	ours := map[string]string{
		controlv1alpha1.AnnotationBinding:     origin.Binding,
		controlv1alpha1.AnnotationContentHash: hash.String(),
		controlv1alpha1.AnnotationKinds:       works.Kinds(after),
	}
	if claims := works.Claims(after); claims != "" {
		ours[controlv1alpha1.AnnotationClaims] = claims
	}
	return ours
}

func items(entries []plan.Entry) []plan.Item {
	items := make([]plan.Item, len(entries))
	for i := range entries {
		items[i].Hash = entries[i].Hash
	}
	return items
}

// operation is one operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// nudge returns the JSON patch that a Nudge sends.
func nudge(a *plan.Action) ([]byte, error) {
	return json.Marshal([]operation{
		{"test", "/metadata/uid", a.UID},
		{"add", pointer("metadata", "labels", controlv1alpha1.LabelNudge), strconv.Itoa(a.Nudges)},
	})
}

// patch returns the JSON patch that a Patch sends, and the hash that it records.
func (p *Plugin) patch(origin plugin.Origin, a *plan.Action) ([]byte, transform.Hash, error) {
	ops := []operation{{"test", "/metadata/uid", a.UID}}
	recorded := pointer("metadata", "annotations", controlv1alpha1.AnnotationContentHash)
	// The generation guards the positions against edits of the spec, the hash against another
	// instance of this controller.
	ops = append(ops, operation{"test", "/metadata/generation", a.Generation})
	if a.Recorded != (transform.Hash{}) {
		ops = append(ops, operation{"test", recorded, a.Recorded.String()})
	}
	if a.ResourceVersion != "" {
		ops = append(ops, operation{"test", "/metadata/resourceVersion", a.ResourceVersion})
	}
	for _, c := range a.Changes {
		op, err := change(c)
		if err != nil {
			return nil, transform.Hash{}, err
		}
		ops = append(ops, op)
	}
	spec := works.Remainder(a.After)
	if a.Rest {
		ops = append(ops, set("/spec/manifestConfigs", spec.ManifestConfigs, len(spec.ManifestConfigs) > 0)...)
		ops = append(ops, set("/spec/deleteOption", spec.DeleteOption, spec.DeleteOption != nil)...)
		ops = append(ops, set("/spec/executor", nil, false)...)
	}
	hash := works.Hash(items(a.After), &spec)
	ours := annotations(origin, a.After, hash)
	switch {
	case a.Recorded == (transform.Hash{}):
		// Some of our annotations are missing, and perhaps all annotations: then none can be added
		// to them.
		ops = append(ops, operation{"add", "/metadata/annotations", ours})
	case slices.ContainsFunc(a.Changes, func(c plan.Change) bool { return c.Op != plan.OpReplace }):
		kinds := pointer("metadata", "annotations", controlv1alpha1.AnnotationKinds)
		ops = append(ops, operation{"add", kinds, ours[controlv1alpha1.AnnotationKinds]})
		fallthrough
	default:
		ops = append(ops, operation{"replace", recorded, ours[controlv1alpha1.AnnotationContentHash]})
		if a.Claims {
			claims := ours[controlv1alpha1.AnnotationClaims]
			ops = append(ops, set(pointer("metadata", "annotations", controlv1alpha1.AnnotationClaims), claims, claims != "")...)
		}
	}
	if slices.ContainsFunc(a.Changes, func(c plan.Change) bool { return c.Op == plan.OpRemove }) {
		ops = append(ops, operation{"add", pointer("metadata", "annotations", controlv1alpha1.AnnotationLeft), works.Left(a.Left)})
	}
	if a.Unproven || a.Recorded == (transform.Hash{}) { // what was recorded may be lost
		// The test of the generation makes sure that this is the next one, if it changes at all.
		next := strconv.FormatInt(a.Generation+1, 10)
		ops = append(ops, operation{"add", pointer("metadata", "annotations", controlv1alpha1.AnnotationReportsFrom), next})
	}
	raw, err := json.Marshal(ops)
	return raw, hash, err
}

func change(c plan.Change) (operation, error) {
	path := pointer("spec", "workload", "manifests", strconv.Itoa(c.At))
	switch c.Op {
	case plan.OpRemove:
		return operation{"remove", path, nil}, nil
	case plan.OpReplace:
		return operation{"replace", path, json.RawMessage(c.Object.JSON)}, nil
	case plan.OpInsert:
		return operation{"add", path, json.RawMessage(c.Object.JSON)}, nil
	}
	return operation{}, fmt.Errorf("unknown change %q", c.Op)
}

// set returns the operations that set a field, or remove it. A missing field cannot be removed, so
// it is added first.
func set(path string, value any, present bool) []operation {
	if present {
		return []operation{{"add", path, value}}
	}
	return []operation{{"add", path, false}, {"remove", path, nil}}
}

// pointer returns a JSON pointer.
func pointer(segments ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(escape.Replace(s))
	}
	return b.String()
}

// labelValue returns the name, truncated to the length of a label value, with a hash that keeps it
// unique.
func labelValue(name string) string {
	const most, digits = 63, 8
	if len(name) <= most {
		return name
	}
	return name[:most-digits-1] + "-" + transform.HashOf([]byte(name)).String()[:digits]
}
