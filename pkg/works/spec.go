package works

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Remainder returns the spec without the manifests. Fields that the API server would default are
// set. Of the strategies of an object, OCM's agent takes the first: so those of single objects come
// before those of whole resources.
func Remainder(entries []plan.Entry) workv1.ManifestWorkSpec {
	var spec workv1.ManifestWorkSpec
	usual := map[schema.GroupResource]bool{}
	for i := range entries {
		e := &entries[i]
		strategy := strategyOf(e.Options)
		if !e.Stage.Begun && apiequality.Semantic.DeepEqual(strategy, usualStrategy) {
			usual[e.Ref.GroupResource()] = true
		} else {
			spec.ManifestConfigs = append(spec.ManifestConfigs, workv1.ManifestConfigOption{
				ResourceIdentifier: identifier(e.Ref), UpdateStrategy: strategy, FeedbackRules: stageRules(e.Options),
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
	apply := &workv1.ServerSideApplyConfig{Force: !o.NoForce && !o.Careful(), FieldManager: o.Manager()}
	if o.IgnoredFields != "" && !o.Stage.Begun {
		// A former version wrote it, and the object cannot be read now: it stays as it is.
		apply.IgnoreFields = []workv1.IgnoreField{{
			Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPaths: strings.Split(o.IgnoredFields, "\n"),
		}}
	}
	return &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: apply}
}

// uidPath is where an object has its UID.
const uidPath = ".metadata.uid"

// stageRules returns the rule by which the cluster reports which object it is, of one that has a
// Stage. The name of the rule is the Stage: so what the cluster reports under that name it has read
// after it saw this manifest, and no writer can change one without the other.
func stageRules(o plan.Options) []workv1.FeedbackRule {
	if !o.Stage.Begun || o.CreateOnly || o.Observe && o.Stage.Former == "" {
		return nil
	}
	return []workv1.FeedbackRule{{
		Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{{Name: o.StageText(), Path: uidPath}},
	}}
}

// stageOf reads what stageRules wrote into the options of an object.
func stageOf(rules []workv1.FeedbackRule, o plan.Options) plan.Options {
	for i := range rules {
		for _, path := range rules[i].JsonPaths {
			if staged, ok := plan.ParseStage(path.Name); ok && path.Path == uidPath {
				staged.Observe, staged.Update = o.Observe, o.Update
				return staged
			}
		}
	}
	return o
}

func identifier(ref objref.Ref) workv1.ResourceIdentifier {
	return workv1.ResourceIdentifier{Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}
}

// Hash hashes a spec: its manifests by their hashes, and the rest. Of the rest, fields without
// a meaning do not count: those that an API server defaults, or that an older one does not know.
func Hash(items []plan.Item, spec *workv1.ManifestWorkSpec) transform.Hash {
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

func refOf(id workv1.ResourceIdentifier) objref.Ref {
	return objref.Ref{Group: id.Group, Resource: id.Resource, Namespace: id.Namespace, Name: id.Name}
}

// optionsOf reads what strategyOf wrote.
func optionsOf(strategy *workv1.UpdateStrategy) (o plan.Options) {
	switch strategy.Type {
	case workv1.UpdateStrategyTypeReadOnly:
		o.Observe = true
	case workv1.UpdateStrategyTypeCreateOnly:
		o.CreateOnly = true
	case workv1.UpdateStrategyTypeServerSideApply:
		o.NoForce = true
		if apply := strategy.ServerSideApply; apply != nil {
			o.NoForce = !apply.Force
			for _, ignored := range apply.IgnoreFields {
				o.IgnoredFields = strings.Join(ignored.JSONPaths, "\n")
			}
		}
	case workv1.UpdateStrategyTypeUpdate:
		o.Update = true
	}
	return o
}

// readKinds reads what Kinds returned.
func readKinds(text string) map[schema.GroupKind]string {
	kinds := map[schema.GroupKind]string{}
	for entry := range strings.SplitSeq(text, ",") {
		if kind, resource, ok := strings.Cut(entry, "="); ok {
			kinds[schema.ParseGroupKind(kind)] = resource
		}
	}
	return kinds
}

// Kinds lists the resource of each kind, as "Deployment.apps=deployments,…", sorted.
func Kinds(entries []plan.Entry) string {
	var kinds []string
	for i := range entries {
		kind := schema.GroupKind{Group: entries[i].Ref.Group, Kind: entries[i].Kind}
		kinds = append(kinds, kind.String()+"="+entries[i].Ref.Resource)
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), ",")
}

// Claims returns the value of AnnotationClaims, "" for none.
func Claims(entries []plan.Entry) string {
	return claims(entries, func(e *plan.Entry) (objref.Ref, bool) { return e.Ref, e.Claim() })
}

func claims[T any](objects []T, isClaim func(*T) (objref.Ref, bool)) string {
	var refs []objref.Ref
	for i := range objects {
		if ref, claim := isClaim(&objects[i]); claim {
			refs = append(refs, ref)
		}
	}
	return string(corestatus.NewClaims(refs))
}
