package variant

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
)

// ValidateSet returns every error in a PackageVariantSet, except those in expressions, which
// Compile returns. The texts are those of Porch where it has them.
func ValidateSet(spec *configv1alpha2.PackageVariantSetSpec) []string {
	var wrong []string
	if up := spec.Upstream; up == nil {
		wrong = append(wrong, "spec.upstream is a required field")
	} else {
		if up.Package == "" {
			wrong = append(wrong, "spec.upstream.package is a required field")
		}
		if up.Repo == "" {
			wrong = append(wrong, "spec.upstream.repo is a required field")
		}
		wrong = append(wrong, validateUpstream(up)...)
	}
	if len(spec.Targets) == 0 {
		wrong = append(wrong, "must specify at least one item in spec.targets")
	}
	for i := range spec.Targets {
		wrong = append(wrong, validateTarget(fmt.Sprintf("spec.targets[%d]", i), &spec.Targets[i])...)
	}
	return wrong
}

func validateTarget(at string, t *configv1alpha2.Target) []string {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, at+fmt.Sprintf(format, args...)) }
	emptyNames := func(in string, names []string) {
		for i, name := range names {
			if name == "" {
				add("%s.packageNames[%d] cannot be empty", in, i)
			}
		}
	}
	kinds := 0
	if t.Repositories != nil {
		kinds++
		if len(t.Repositories) == 0 {
			add(".repositories must not be an empty list if specified")
		}
		for i := range t.Repositories {
			if t.Repositories[i].Name == "" {
				add(".repositories[%d].name cannot be empty", i)
			}
			emptyNames(fmt.Sprintf(".repositories[%d]", i), t.Repositories[i].PackageNames)
		}
	}
	selector := func(name string, s *metav1.LabelSelector, packageNames []string) {
		kinds++
		emptyNames("."+name, packageNames)
		if len(packageNames) > 0 && len(t.PackageNames) > 0 {
			add(" may specify only one of `packageNames` and `%s.packageNames`", name)
		}
		wrong = append(wrong, texts(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, field.NewPath(at, name)))...)
	}
	if s := t.RepositorySelector; s != nil {
		selector("repositorySelector", &s.LabelSelector, s.PackageNames)
	}
	if s := t.ObjectSelector; s != nil {
		if s.APIVersion == "" {
			add(".objectselector.apiVersion cannot be empty")
		} else if _, err := schema.ParseGroupVersion(s.APIVersion); err != nil {
			add(".objectSelector.apiVersion: Invalid value: %q: must be a version, or a group and a version with a slash between them", clip(s.APIVersion))
		}
		if s.Kind == "" {
			add(".objectselector.kind cannot be empty")
		}
		selector("objectSelector", &s.LabelSelector, s.PackageNames)
	}
	if kinds != 1 {
		add(" must specify one of `repositories`, `repositorySelector`, or `objectSelector`")
	}
	emptyNames("", t.PackageNames)
	if t.Template != nil {
		wrong = append(wrong, validateTemplate(at+".template", t.Template)...)
	}
	return wrong
}

func validateTemplate(at string, t *configv1alpha2.PackageVariantTemplate) []string {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, at+fmt.Sprintf(format, args...)) }
	if p := t.AdoptionPolicy; p != nil && !validAdoption(*p) {
		add(".adoptionPolicy can only be %q or %q", configv1alpha1.AdoptionPolicyAdoptNone, configv1alpha1.AdoptionPolicyAdoptExisting)
	}
	if p := t.DeletionPolicy; p != nil && !validDeletion(*p) {
		add(".deletionPolicy can only be %q or %q", configv1alpha1.DeletionPolicyOrphan, configv1alpha1.DeletionPolicyDelete)
	}
	if d := t.Downstream; d != nil {
		if d.Repo != nil && d.RepoExpr != nil {
			add(" may specify only one of `downstream.repo` and `downstream.repoExpr`")
		}
		if d.Package != nil && d.PackageExpr != nil {
			add(" may specify only one of `downstream.package` and `downstream.packageExpr`")
		}
	}
	wrong = append(wrong, validateEntries(at+".labelExprs", t.LabelExprs)...)
	wrong = append(wrong, validateEntries(at+".annotationExprs", t.AnnotationExprs)...)
	if pc := t.PackageContext; pc != nil {
		wrong = append(wrong, validateEntries(at+".packageContext.dataExprs", pc.DataExprs)...)
		wrong = append(wrong, validateContext(at, pc.Data, pc.RemoveKeys)...)
	}
	for i := range t.Injectors {
		switch injector := &t.Injectors[i]; {
		case injector.Name != nil && injector.NameExpr != nil:
			add(".injectors[%d] may specify only one of `name` and `nameExpr`", i)
		case injector.Name == nil && injector.NameExpr == nil:
			add(".injectors[%d] must specify either `name` or `nameExpr`", i)
		}
	}
	if p := t.Pipeline; p != nil {
		wrong = append(wrong, validateFunctionTemplates(at+".pipeline.validators", p.Validators)...)
		wrong = append(wrong, validateFunctionTemplates(at+".pipeline.mutators", p.Mutators)...)
	}
	return wrong
}

func validateEntries(at string, entries []configv1alpha2.MapExpr) []string {
	var wrong []string
	for i := range entries {
		e, at := &entries[i], fmt.Sprintf("%s[%d]", at, i)
		if e.Key != nil && e.KeyExpr != nil {
			wrong = append(wrong, at+" may specify only one of `key` and `keyExpr`")
		}
		if e.Value != nil && e.ValueExpr != nil {
			wrong = append(wrong, at+" may specify only one of `value` and `valueExpr`")
		}
		if e.Key == nil && e.KeyExpr == nil {
			wrong = append(wrong, at+" must specify either `key` or `keyExpr`")
		}
	}
	return wrong
}

func validateFunctionTemplates(at string, functions []configv1alpha2.FunctionTemplate) []string {
	var wrong []string
	for i := range functions {
		f, at := &functions[i], fmt.Sprintf("%s[%d]", at, i)
		wrong = append(wrong, validateFunction(at, &f.Function)...)
		if strings.Contains(f.Name, ".") {
			wrong = append(wrong, at+".name must not contain '.'")
		}
		wrong = append(wrong, validateEntries(at+".configMapExprs", f.ConfigMapExprs)...)
	}
	return wrong
}
