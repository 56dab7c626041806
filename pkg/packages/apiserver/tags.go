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
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewUnauthorized("the request has no user")
	}
	resource := porchv1alpha1.ResourcePackageRevisions
	decision, _, err := r.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: "update", APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Subresource: "approval",
		Namespace: genericapirequest.NamespaceValue(ctx), Name: name, ResourceRequest: true,
	})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("check whether user %q may approve PackageRevision %q: %w", user.GetName(), name, err))
	}
	if decision != authorizer.DecisionAllow {
		return apierrors.NewForbidden(revisionResource, name, errors.New("metadata.labels["+changed[0]+
			"]: only a user who may update packagerevisions/approval may add or remove a tag, and \""+user.GetName()+"\" may not"))
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
