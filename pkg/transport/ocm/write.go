package ocm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/plugin"
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
		Spec: remainder(a.After),
	}
	for i := range a.After {
		object := a.After[i].Object
		if object == nil {
			return nil, transform.Hash{}, fmt.Errorf("no content of %s", a.After[i].Ref)
		}
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: object.JSON}})
	}
	hash := specHash(items(a.After), &work.Spec)
	work.Annotations = annotations(origin, a.After, hash)
	return work, hash, nil
}

// annotations returns our annotations on a work that holds these objects.
func annotations(origin plugin.Origin, after []plan.Entry, hash transform.Hash) map[string]string {
	return map[string]string{
		controlv1alpha1.AnnotationBinding:     origin.Binding,
		controlv1alpha1.AnnotationContentHash: hash.String(),
		controlv1alpha1.AnnotationKinds:       writeKinds(after),
	}
}

func items(entries []plan.Entry) []plan.Item {
	items := make([]plan.Item, len(entries))
	for i := range entries {
		items[i].Hash = entries[i].Hash
	}
	return items
}

// remainder returns the spec without the manifests. Fields that the API server would default are
// set. Of the strategies of an object, OCM's agent takes the first: so those of single objects come
// before those of whole resources.
func remainder(entries []plan.Entry) workv1.ManifestWorkSpec {
	var spec workv1.ManifestWorkSpec
	usual := map[schema.GroupResource]bool{}
	for i := range entries {
		e := &entries[i]
		strategy := strategyOf(e.Options)
		if apiequality.Semantic.DeepEqual(strategy, usualStrategy) {
			usual[e.Ref.GroupResource()] = true
		} else {
			spec.ManifestConfigs = append(spec.ManifestConfigs, workv1.ManifestConfigOption{
				ResourceIdentifier: identifier(e.Ref), UpdateStrategy: strategy,
			})
		}
		if e.Orphan {
			if spec.DeleteOption == nil {
				spec.DeleteOption = &workv1.DeleteOption{
					PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
					SelectivelyOrphan: &workv1.SelectivelyOrphan{},
				}
			}
			rules := &spec.DeleteOption.SelectivelyOrphan.OrphaningRules
			*rules = append(*rules, workv1.OrphaningRule(identifier(e.Ref)))
		}
	}
	for _, gr := range slices.SortedFunc(maps.Keys(usual), func(a, b schema.GroupResource) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
	}) {
		spec.ManifestConfigs = append(spec.ManifestConfigs, workv1.ManifestConfigOption{
			ResourceIdentifier: identifier(objref.New(gr, all, all)), UpdateStrategy: usualStrategy,
		})
	}
	return spec
}

// all as a namespace and as a name stands for all objects of a resource.
const all = "*"

// usualStrategy is that of objects without options. It must not be changed.
var usualStrategy = strategyOf(plan.Options{}) //nolint:gochecknoglobals // a constant

func strategyOf(o plan.Options) *workv1.UpdateStrategy {
	switch {
	case o.Observe:
		return &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly}
	case o.CreateOnly:
		return &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}
	case o.Update:
		return &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}
	}
	apply := &workv1.ServerSideApplyConfig{Force: !o.NoForce, FieldManager: workv1.DefaultFieldManager}
	if o.IgnoredFields != "" {
		apply.IgnoreFields = []workv1.IgnoreField{{
			Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPaths: strings.Split(o.IgnoredFields, "\n"),
		}}
	}
	return &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: apply}
}

func identifier(ref objref.Ref) workv1.ResourceIdentifier {
	return workv1.ResourceIdentifier{Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}
}

// specHash hashes a spec: its manifests by their hashes, and the rest. Of the rest, fields without
// a meaning do not count: those that an API server defaults, or that an older one does not know.
func specHash(items []plan.Item, spec *workv1.ManifestWorkSpec) transform.Hash {
	rest := workv1.ManifestWorkSpec{
		DeleteOption: spec.DeleteOption, ManifestConfigs: slices.Clone(spec.ManifestConfigs), Executor: spec.Executor,
	}
	for i := range rest.ManifestConfigs {
		if c := &rest.ManifestConfigs[i]; c.FeedbackScrapeType == workv1.FeedbackPollType {
			c.FeedbackScrapeType = ""
		}
	}
	raw, err := json.Marshal(rest)
	if err != nil {
		raw = nil // these types can always be encoded
	}
	buffer := make([]byte, 0, len(raw)+len(items)*len(transform.Hash{}))
	for i := range items {
		buffer = append(buffer, items[i].Hash[:]...)
	}
	return transform.HashOf(append(buffer, raw...))
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
	for _, c := range a.Changes {
		op, err := change(c)
		if err != nil {
			return nil, transform.Hash{}, err
		}
		ops = append(ops, op)
	}
	spec := remainder(a.After)
	if a.Rest {
		ops = append(ops, set("/spec/manifestConfigs", spec.ManifestConfigs, len(spec.ManifestConfigs) > 0)...)
		ops = append(ops, set("/spec/deleteOption", spec.DeleteOption, spec.DeleteOption != nil)...)
		ops = append(ops, set("/spec/executor", nil, false)...)
	}
	hash := specHash(items(a.After), &spec)
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
