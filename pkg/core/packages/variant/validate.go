package variant

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// reservedKeys are the keys of the package context that the server sets.
var reservedKeys = []string{"name", "package-path"}

// ValidateVariant returns every error in a PackageVariant. The texts are those of Porch where it
// has them, and come first.
func ValidateVariant(pv *configv1alpha1.PackageVariant) []string {
	wrong := validateSpec(&pv.Spec)
	if policy, where := approvalPolicy(pv); policy != "" && policy != configv1alpha1.ApprovalInitial && policy != configv1alpha1.ApprovalAlways {
		wrong = append(wrong, fmt.Sprintf("%s[%s]: Unsupported value: %q: supported values: %s, %s",
			where, configv1alpha1.AnnotationApprovalPolicy, clip(policy), configv1alpha1.ApprovalInitial, configv1alpha1.ApprovalAlways))
	}
	return wrong
}

func validateSpec(spec *configv1alpha1.PackageVariantSpec) []string {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	up, down := spec.Upstream, spec.Downstream
	required := func(field string, given bool) {
		if !given {
			add("missing required field spec.%s", field)
		}
	}
	required("upstream", up != nil)
	if up != nil {
		required("upstream.repo", up.Repo != "")
		required("upstream.package", up.Package != "")
	}
	required("downstream", down != nil)
	if down != nil {
		required("downstream.repo", down.Repo != "")
		required("downstream.package", down.Package != "")
	}
	if !validAdoption(spec.AdoptionPolicy) {
		add("spec.adoptionPolicy field can only be %q or %q", configv1alpha1.AdoptionPolicyAdoptNone, configv1alpha1.AdoptionPolicyAdoptExisting)
	}
	if !validDeletion(spec.DeletionPolicy) {
		add("spec.deletionPolicy can only be %q or %q", configv1alpha1.DeletionPolicyOrphan, configv1alpha1.DeletionPolicyDelete)
	}
	if pc := spec.PackageContext; pc != nil {
		wrong = append(wrong, validateContext("spec", pc.Data, pc.RemoveKeys)...)
	}
	for i := range spec.Injectors {
		if spec.Injectors[i].Name == "" {
			add("spec.injectors[%d].name must not be empty", i)
		}
	}

	// Porch does not check the following.
	if up != nil {
		wrong = append(wrong, validateUpstream(up)...)
	}
	if up != nil && down != nil && up.Repo != "" && up.Package != "" && up.Repo == down.Repo && up.Package == down.Package {
		add("spec.downstream: Invalid value: must not be the same package as spec.upstream")
	}
	if down != nil {
		if down.Repo != "" {
			wrong = append(wrong, invalid("spec.downstream.repo", down.Repo, validation.IsDNS1123Label(down.Repo))...)
		}
		if down.Package != "" {
			wrong = append(wrong, invalid("spec.downstream.package", down.Package, isPackage(down.Package))...)
		}
	}
	wrong = append(wrong, texts(metav1validation.ValidateLabels(spec.Labels, field.NewPath("spec", "labels")))...)
	if _, ok := spec.Labels[porchv1alpha1.LatestRevisionLabel]; ok {
		add("spec.labels: Forbidden: label %s is set by the server", porchv1alpha1.LatestRevisionLabel)
	}
	for _, key := range slices.Sorted(maps.Keys(spec.Labels)) {
		if strings.HasPrefix(key, configv1alpha1.LabelTagPrefix) {
			add("spec.labels: Forbidden: label %s is a tag: set it on the PackageRevision, where the right of the user to approve is checked", clip(key))
		}
	}
	if _, found := spec.Annotations[pkgv1.AnnotationAllowBreakingCRDs]; found {
		add("spec.annotations[%s]: Forbidden: set it on the PackageRevision, where the rights of the user are checked", pkgv1.AnnotationAllowBreakingCRDs)
	}
	for _, key := range []string{configv1alpha1.AnnotationPolicyOf, configv1alpha1.AnnotationReleasedBy} {
		if _, found := spec.Annotations[key]; found {
			add("spec.annotations[%s]: Forbidden: the controller sets it", key)
		}
	}
	wrong = append(wrong, texts(apivalidation.ValidateAnnotations(spec.Annotations, field.NewPath("spec", "annotations")))...)
	if p := spec.Pipeline; p != nil {
		wrong = append(wrong, validateFunctions("spec.pipeline.validators", p.Validators)...)
		wrong = append(wrong, validateFunctions("spec.pipeline.mutators", p.Mutators)...)
	}
	return wrong
}

func validateUpstream(u *configv1alpha1.Upstream) []string {
	var wrong []string
	named := given(u.Revision) || u.WorkspaceName != ""
	switch {
	case !named && u.Tag == "":
		wrong = append(wrong, "either spec.upstream.revision or spec.upstream.workspaceName must be specified")
	case named && u.Tag != "":
		wrong = append(wrong, "spec.upstream.tag: Forbidden: may not be specified with spec.upstream.revision or spec.upstream.workspaceName")
	}
	want, err := parseRevision(u.Revision)
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	if want.latest && u.WorkspaceName != "" {
		wrong = append(wrong, "spec.upstream.workspaceName: Forbidden: may not be specified with revision latest, which moves")
	}
	if u.Tag != "" {
		wrong = append(wrong, invalid("spec.upstream.tag", u.Tag, validation.IsQualifiedName(configv1alpha1.LabelTagPrefix+u.Tag))...)
	}
	return wrong
}

// validateContext rejects reserved and invalid keys.
func validateContext(at string, data map[string]string, removeKeys []string) []string {
	var wrong []string
	path := field.NewPath(at).Child("packageContext")
	for _, key := range reservedKeys {
		if value, ok := data[key]; ok {
			wrong = append(wrong, field.Invalid(path.Child("data"), map[string]string{key: clip(value)}, fmt.Sprintf("must not contain the key %q", key)).Error())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		wrong = append(wrong, invalid(path.Child("data").String(), key, validation.IsConfigMapKey(key))...)
	}
	for _, key := range reservedKeys {
		if slices.Contains(removeKeys, key) {
			wrong = append(wrong, field.Invalid(path.Child("removeKeys"), []string{key}, fmt.Sprintf("must not contain the key %q", key)).Error())
		}
	}
	return wrong
}

func validateFunctions(at string, functions []configv1alpha1.Function) []string {
	var wrong []string
	for i := range functions {
		wrong = append(wrong, validateFunction(fmt.Sprintf("%s[%d]", at, i), &functions[i])...)
	}
	return wrong
}

func validateFunction(at string, f *configv1alpha1.Function) []string {
	switch {
	case f.Exec != "":
		return []string{at + ".exec: Forbidden: not supported; use image"}
	case f.Image == "":
		return []string{at + ".image must not be empty"}
	}
	return nil
}

// isPackage returns the error in the path of a package. Its parts must be DNS labels; else two
// packages could have revisions of the same name.
func isPackage(path string) []string {
	for part := range strings.SplitSeq(path, "/") {
		if texts := validation.IsDNS1123Label(part); len(texts) > 0 {
			return []string{"each part between slashes " + strings.TrimPrefix(texts[0], "a lowercase RFC 1123 label ")}
		}
	}
	return nil
}

func invalid(at, value string, because []string) []string {
	if len(because) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: Invalid value: %q: %s", at, clip(value), because[0])}
}

func texts(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

func validAdoption(p configv1alpha1.AdoptionPolicy) bool {
	return p == "" || p == configv1alpha1.AdoptionPolicyAdoptNone || p == configv1alpha1.AdoptionPolicyAdoptExisting
}

func validDeletion(p configv1alpha1.DeletionPolicy) bool {
	return p == "" || p == configv1alpha1.DeletionPolicyOrphan || p == configv1alpha1.DeletionPolicyDelete
}
