package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
)

// userName returns the name of the authenticated user of a request.
func userName(ctx context.Context) string {
	if user, ok := genericapirequest.UserFrom(ctx); ok {
		return user.GetName()
	}
	return ""
}

// checkOwners refuses to change whether a PackageVariant owns a revision, unless the user may
// update that PackageVariant: it approves, upgrades and deletes the revisions that it owns.
//
// The same holds for the annotation by which a PackageVariant of that name becomes the owner.
func (r *revisions) checkOwners(ctx context.Context, name string, before, after *metav1.ObjectMeta) error {
	changed := changedVariants(before.OwnerReferences, after.OwnerReferences)
	if variant := after.Annotations[configv1alpha1.AnnotationReleasedBy]; variant != "" && variant != before.Annotations[configv1alpha1.AnnotationReleasedBy] {
		changed = append(changed, variant)
	}
	user, ok := genericapirequest.UserFrom(ctx)
	if len(changed) > 0 && !ok {
		return apierrors.NewUnauthorized("the request has no user")
	}
	for _, variant := range changed {
		resource := configv1alpha1.PackageVariants
		decision, _, err := r.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: user, Verb: "update", APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource,
			Namespace: genericapirequest.NamespaceValue(ctx), Name: variant, ResourceRequest: true,
		})
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("check whether user %q may update PackageVariant %q: %w", user.GetName(), variant, err))
		}
		if decision != authorizer.DecisionAllow {
			return apierrors.NewForbidden(revisionResource, name, ownerForbidden(user.GetName(), variant))
		}
	}
	return nil
}

func ownerForbidden(user, variant string) error {
	return errors.New("only a user who may update PackageVariant \"" + variant +
		"\" may add or remove it in metadata.ownerReferences, or name it in annotation " + configv1alpha1.AnnotationReleasedBy + ", and \"" + user + "\" may not")
}

// changedVariants returns the names of the PackageVariants whose owner references differ, sorted.
func changedVariants(before, after []metav1.OwnerReference) []string {
	changed := map[string]bool{}
	compare := func(all, others []metav1.OwnerReference) {
		for _, o := range all {
			group, err := schema.ParseGroupVersion(o.APIVersion)
			same := func(other metav1.OwnerReference) bool { return apiequality.Semantic.DeepEqual(o, other) }
			if err == nil && group.Group == configv1alpha1.GroupName && o.Kind == "PackageVariant" && !slices.ContainsFunc(others, same) {
				changed[o.Name] = true
			}
		}
	}
	compare(before, after)
	compare(after, before)
	return slices.Sorted(maps.Keys(changed))
}
