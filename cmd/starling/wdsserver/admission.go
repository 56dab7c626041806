package wdsserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/dynamic"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
)

// pluginName is the name of our admission plugin in logs and flags.
const pluginName = "StarlingWDS"

// plugin refuses what a WDS cannot carry without acting on it, and says what to do instead.
type plugin struct {
	*admission.Handler
	client dynamic.Interface
	// converts reports whether the WDS calls conversion webhooks.
	converts bool
}

var (
	_ admission.MutationInterface   = &plugin{}
	_ admission.ValidationInterface = &plugin{}
)

// register adds the plugin to those of an API server.
func register(plugins *admission.Plugins, converts bool) {
	plugins.Register(pluginName, func(io.Reader) (admission.Interface, error) {
		return &plugin{Handler: admission.NewHandler(admission.Create, admission.Update), converts: converts}, nil
	})
}

// SetDynamicClient implements initializer.WantsDynamicClient.
func (p *plugin) SetDynamicClient(client dynamic.Interface) { p.client = client }

// ValidateInitialization implements admission.InitializationValidator.
func (p *plugin) ValidateInitialization() error {
	if p.client == nil {
		return errors.New("no client")
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !p.asStored(a) {
		return nil
	}
	if a.GetOperation() == admission.Update {
		if completed, err := p.completeFromStored(ctx, a); completed || err != nil {
			return err
		}
	}
	if now, is := a.GetObject().(*unstructured.Unstructured); is && rewrites(a, now) {
		unstructured.RemoveNestedField(now.Object, "metadata", "annotations", controlv1alpha1.AnnotationNotConverted)
	}
	return nil
}

// rewrites reports whether an object that is written lacks nothing that it has in that version:
// because it is created, or lacked nothing, or because all who applied it, with kubectl or
// server-side, now do so in that version. Another write changes what the object has, and says
// nothing of what it lacks. In another version than the storage version the write is refused
// (refuseVersion).
func rewrites(a admission.Attributes, now *unstructured.Unstructured) bool {
	before, was := a.GetOldObject().(*unstructured.Unstructured)
	if a.GetSubresource() != "" || !was {
		return a.GetOperation() == admission.Create
	}
	if _, lacks := before.GetAnnotations()[controlv1alpha1.AnnotationNotConverted]; !lacks {
		return true // a server-side apply converts to the version of each manager, and back
	}
	in, others := appliers(now), false
	for who, version := range appliers(before) {
		others = others || version != now.GetAPIVersion()
		if in[who] != now.GetAPIVersion() {
			return false
		}
	}
	return others
}

// appliers returns in which version an object was applied last, by field manager; with the name ""
// for kubectl, which applies on the side of the client.
func appliers(object *unstructured.Unstructured) map[string]string {
	in := map[string]string{}
	var last metav1.TypeMeta
	if text, has := object.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; has && json.Unmarshal([]byte(text), &last) == nil {
		in[""] = last.APIVersion
	}
	for _, f := range object.GetManagedFields() {
		if f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "" {
			in[f.Manager] = f.APIVersion
		}
	}
	return in
}

// Validate implements admission.ValidationInterface.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource()
	switch {
	case resource.Group == "" && resource.Resource == "serviceaccounts" && a.GetSubresource() == "token":
		return refuseToken(a)
	case p.asStored(a):
		return p.refuseVersion(ctx, a)
	}
	return nil
}

// asStored reports whether objects of a kind may be of a CustomResourceDefinition, and are not
// converted. Most writes are of kinds that are no workload or built in.
func (p *plugin) asStored(a admission.Attributes) bool {
	resource := a.GetResource()
	return !p.converts && !match.NeverResource(resource.GroupResource()) && !legacyscheme.Scheme.IsGroupRegistered(resource.Group)
}

// controllerManager may get tokens of the ServiceAccounts of its controllers.
const controllerManager = "system:kube-controller-manager"

// refuseToken refuses a token of a ServiceAccount that is workload.
func refuseToken(a admission.Attributes) error {
	namespace := a.GetNamespace()
	if namespace == starlingNamespace || namespace == metav1.NamespaceSystem && a.GetUserInfo().GetName() == controllerManager {
		return nil
	}
	return admission.NewForbidden(a, fmt.Errorf("a WDS issues no tokens of ServiceAccounts that are for clusters. %s", instead))
}

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// refuseVersion refuses to write an object, whose kind has a conversion webhook, in another version
// than that in which it is stored: the API server would drop the fields that the storage version
// does not have. It has dropped those that the other version does not have when it read the object,
// so what is not to change is compared with what is stored.
func (p *plugin) refuseVersion(ctx context.Context, a admission.Attributes) error {
	definition, stored, err := p.otherVersion(ctx, a)
	if err != nil || definition == nil {
		return err
	}
	if now, is := a.GetObject().(*unstructured.Unstructured); is && a.GetOperation() == admission.Update {
		current, err := p.read(ctx, a, stored)
		if err != nil {
			return err
		}
		if sameContent(now, current) {
			return nil
		}
	}
	return admission.NewForbidden(a, fmt.Errorf("a WDS calls no conversion webhooks, so it cannot store a %s of version %s without losing fields: "+
		"write it as %s/%s, the storage version of CustomResourceDefinition %s. Clusters convert it",
		a.GetKind().Kind, a.GetResource().Version, a.GetResource().Group, stored, definition.Name))
}

// completeFromStored gives a write of nothing but metadata what is stored of the rest: kubectl and
// the garbage collector write metadata in the preferred version of a kind. What they read has lost
// the fields that this version does not have, and has those that it has by default. The generation
// may grow by that. Where the API server then takes fields from what it has read, as it does with a
// status, refuseVersion refuses the write.
func (p *plugin) completeFromStored(ctx context.Context, a admission.Attributes) (completed bool, err error) {
	now, is := a.GetObject().(*unstructured.Unstructured)
	before, was := a.GetOldObject().(*unstructured.Unstructured)
	if !is || !was || !extends(now, before) {
		return false, nil // most writes: nothing needs to be read to know that they change more than metadata
	}
	definition, version, err := p.otherVersion(ctx, a)
	if err != nil || definition == nil {
		return false, err
	}
	read, err := p.read(ctx, a, a.GetResource().Version)
	if err != nil {
		return false, err
	}
	if err := setDefaults(read, definition); err != nil {
		return false, admission.NewForbidden(a, err)
	}
	if !sameContent(now, read) {
		return false, nil // refuseVersion refuses it
	}
	stored, err := p.read(ctx, a, version)
	if err != nil {
		return false, err
	}
	if read.GetResourceVersion() != before.GetResourceVersion() || stored.GetResourceVersion() != before.GetResourceVersion() {
		return false, apierrors.NewConflict(a.GetResource().GroupResource(), a.GetName(), errors.New("the object was changed meanwhile"))
	}
	maps.DeleteFunc(now.Object, func(field string, _ any) bool { return !isMetadata(field) })
	annotations := now.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[controlv1alpha1.AnnotationNotConverted] = cmp.Or(stored.GetAnnotations()[controlv1alpha1.AnnotationNotConverted], whole)
	maps.DeleteFunc(stored.Object, func(field string, _ any) bool { return isMetadata(field) })
	maps.Copy(now.Object, stored.Object)
	now.SetAnnotations(annotations)
	return true, nil
}

// otherVersion returns the definition of the kind of an object and its storage version if the
// object is written in another one and the kind has a conversion webhook, nil otherwise.
func (p *plugin) otherVersion(ctx context.Context, a admission.Attributes) (*apiextensionsv1.CustomResourceDefinition, string, error) {
	resource := a.GetResource()
	// From the cache of the API server.
	found, err := p.client.Resource(definitions).Get(ctx, resource.GroupResource().String(), metav1.GetOptions{ResourceVersion: "0"})
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", nil // it is served by another API server, or about to be deleted
	case err != nil: // whether fields would be lost is not known
		return nil, "", apierrors.NewInternalError(fmt.Errorf("read the CustomResourceDefinition: %w", err))
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &crd); err != nil {
		return nil, "", admission.NewForbidden(a, fmt.Errorf("read the CustomResourceDefinition: %w", err))
	}
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Strategy != apiextensionsv1.WebhookConverter {
		return nil, "", nil
	}
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if i < 0 || crd.Spec.Versions[i].Name == resource.Version {
		return nil, "", nil
	}
	return &crd, crd.Spec.Versions[i].Name, nil
}

// setDefaults gives an object what it has by default in its version, as the API server does with
// what it is sent.
func setDefaults(object *unstructured.Unstructured, definition *apiextensionsv1.CustomResourceDefinition) error {
	version := object.GroupVersionKind().Version
	i := slices.IndexFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if i < 0 || definition.Spec.Versions[i].Schema == nil || definition.Spec.Versions[i].Schema.OpenAPIV3Schema == nil {
		return nil
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition.Spec.Versions[i].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		return fmt.Errorf("read the schema of version %s: %w", version, err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return fmt.Errorf("read the schema of version %s: %w", version, err)
	}
	structuraldefaulting.Default(object.Object, structural)
	return nil
}

// read reads the object in a version.
func (p *plugin) read(ctx context.Context, a admission.Attributes, version string) (*unstructured.Unstructured, error) {
	resource := a.GetResource().GroupResource().WithVersion(version)
	read, err := p.client.Resource(resource).Namespace(a.GetNamespace()).Get(ctx, a.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, admission.NewForbidden(a, fmt.Errorf("read what is stored, as %s: %w", resource.GroupVersion(), err))
	}
	return read, nil
}

// sameContent reports whether two objects differ in nothing but metadata.
func sameContent(a, b *unstructured.Unstructured) bool {
	for field, value := range a.Object {
		if other, ok := b.Object[field]; !isMetadata(field) && (!ok || !apiequality.Semantic.DeepEqual(value, other)) {
			return false
		}
	}
	for field := range b.Object {
		if _, ok := a.Object[field]; !isMetadata(field) && !ok {
			return false
		}
	}
	return true
}

// extends reports whether an object has all that another one has beside metadata: what it has by
// default is then all that it may have besides.
func extends(a, b *unstructured.Unstructured) bool {
	for field, value := range b.Object {
		if !isMetadata(field) && !contains(a.Object[field], value) {
			return false
		}
	}
	return true
}

// contains reports whether a value of JSON has all fields of another one, in maps and in lists of
// the same length.
func contains(a, b any) bool {
	switch b := b.(type) {
	case map[string]any:
		in, ok := a.(map[string]any)
		for key, value := range b {
			other, has := in[key]
			if !ok || !has || !contains(other, value) {
				return false
			}
		}
		return ok
	case []any:
		in, ok := a.([]any)
		return ok && slices.EqualFunc(in, b, contains)
	}
	return apiequality.Semantic.DeepEqual(a, b)
}

func isMetadata(field string) bool { return field == "metadata" || field == "apiVersion" }
