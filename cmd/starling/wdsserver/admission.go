package wdsserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/dynamic"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

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

var _ admission.ValidationInterface = &plugin{}

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

// Validate implements admission.ValidationInterface.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource()
	switch {
	case resource.Group == "" && resource.Resource == "serviceaccounts" && a.GetSubresource() == "token":
		return refuseToken(a)
	// Most writes are of kinds that are no workload or built in. None of them is converted.
	case !p.converts && !match.NeverResource(resource.GroupResource()) && !legacyscheme.Scheme.IsGroupRegistered(resource.Group):
		return p.refuseVersion(ctx, a)
	}
	return nil
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
// does not have.
func (p *plugin) refuseVersion(ctx context.Context, a admission.Attributes) error {
	resource := a.GetResource()
	// From the cache of the API server.
	found, err := p.client.Resource(definitions).Get(ctx, resource.GroupResource().String(), metav1.GetOptions{ResourceVersion: "0"})
	switch {
	case apierrors.IsNotFound(err):
		return nil // it is served by another API server, or about to be deleted
	case err != nil: // whether fields would be lost is not known
		return apierrors.NewInternalError(fmt.Errorf("read the CustomResourceDefinition: %w", err))
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &definition); err != nil {
		return admission.NewForbidden(a, fmt.Errorf("read the CustomResourceDefinition: %w", err))
	}
	conversion := definition.Spec.Conversion
	if conversion == nil || conversion.Strategy != apiextensionsv1.WebhookConverter {
		return nil
	}
	stored := slices.IndexFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if stored < 0 || definition.Spec.Versions[stored].Name == resource.Version || onlyMetadata(a) {
		return nil
	}
	return admission.NewForbidden(a, fmt.Errorf("a WDS calls no conversion webhooks, so it cannot store a %s of version %s without losing fields: "+
		"write it as %s/%s, the storage version of CustomResourceDefinition %s. Clusters convert it",
		a.GetKind().Kind, resource.Version, resource.Group, definition.Spec.Versions[stored].Name, definition.Name))
}

// onlyMetadata reports whether a write changes nothing but metadata: so it loses nothing. The
// garbage collector writes finalizers in the preferred version of a kind.
func onlyMetadata(a admission.Attributes) bool {
	if a.GetOperation() != admission.Update {
		return false
	}
	now, is := a.GetObject().(*unstructured.Unstructured)
	before, was := a.GetOldObject().(*unstructured.Unstructured)
	if !is || !was {
		return false
	}
	ignored := func(field string) bool { return field == "metadata" || field == "apiVersion" }
	for field, value := range now.Object {
		if had, ok := before.Object[field]; !ignored(field) && (!ok || !apiequality.Semantic.DeepEqual(value, had)) {
			return false
		}
	}
	for field := range before.Object {
		if _, ok := now.Object[field]; !ignored(field) && !ok {
			return false
		}
	}
	return true
}
