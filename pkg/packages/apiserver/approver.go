package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// checkTags refuses to add or remove a tag, unless the user may approve the revision: a
// PackageVariant that follows the tag merges what the tag selects and, with an approval policy,
// publishes it. Drafts are no exception, since their approval would move the tag.
func (r *revisions) checkTags(ctx context.Context, name string, before, after map[string]string) error {
	changed := changedTags(before, after)
	if len(changed) == 0 {
		return nil
	}
	resource := porchv1alpha1.ResourcePackageRevisions
	return r.checkRight(ctx, name, "metadata.labels["+changed[0]+"]: only a user who may update packagerevisions/approval may add or remove a tag", authorizer.AttributesRecord{
		APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Subresource: "approval", Name: name,
	})
}

// checkPolicyOf refuses to mark a draft as written under an approval policy, unless the user may
// write the status of PackageVariants, as their controller may: it is approved automatically.
func (r *revisions) checkPolicyOf(ctx context.Context, name string, before, after map[string]string) error {
	const key = configv1alpha1.AnnotationPolicyOf
	if of := after[key]; of == "" || of == before[key] {
		return nil
	}
	resource := configv1alpha1.PackageVariants
	return r.checkRight(ctx, name, "metadata.annotations["+key+"]: only the controller of PackageVariants, who may update packagevariants/status, may set it", authorizer.AttributesRecord{
		APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Subresource: "status",
	})
}

// checkRight refuses a change, unless the user may update what attributes name in the namespace of
// the request. rule says who may make the change.
func (r *revisions) checkRight(ctx context.Context, name, rule string, attributes authorizer.AttributesRecord) error {
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewUnauthorized("the request has no user")
	}
	attributes.User, attributes.Verb, attributes.Namespace, attributes.ResourceRequest = user, "update", genericapirequest.NamespaceValue(ctx), true
	decision, _, err := r.authorizer.Authorize(ctx, attributes)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("check whether user %q may update %s/%s: %w", user.GetName(), attributes.Resource, attributes.Subresource, err))
	}
	if decision != authorizer.DecisionAllow {
		return apierrors.NewForbidden(revisionResource, name, errors.New(rule+", and \""+user.GetName()+"\" may not"))
	}
	return nil
}

// changedTags returns the labels of the tags that only one of two revisions has, sorted. The values
// of these labels have no meaning.
func changedTags(before, after map[string]string) []string {
	var changed []string
	compare := func(all, others map[string]string) {
		for key := range all {
			if _, there := others[key]; !there && strings.HasPrefix(key, configv1alpha1.LabelTagPrefix) {
				changed = append(changed, key)
			}
		}
	}
	compare(before, after)
	compare(after, before)
	slices.Sort(changed)
	return changed
}
