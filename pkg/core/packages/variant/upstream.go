package variant

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/core/text"
)

// latest selects the highest published revision: the highest number or, in a package without
// numbers, the highest semantic version.
const latest = "latest"

// revisionSelector is the parsed revision of an Upstream.
type revisionSelector struct {
	number int    // 0 if none is named
	tag    string // a semantic version; "" if none is named
	latest bool
}

// given reports whether a revision is set. Clients of Porch write 0 if it is not.
func given(r *intstr.IntOrString) bool {
	return r != nil && !(r.Type == intstr.Int && r.IntVal == 0) && !(r.Type == intstr.String && r.StrVal == "")
}

func parseRevision(r *intstr.IntOrString) (revisionSelector, error) {
	if !given(r) {
		return revisionSelector{}, nil
	}
	if r.Type == intstr.String && r.StrVal == latest {
		return revisionSelector{latest: true}, nil
	}
	if r.Type == intstr.String && version.IsTag(r.StrVal) {
		return revisionSelector{tag: r.StrVal}, nil
	}
	n := int(r.IntVal)
	if r.Type == intstr.String {
		var err error
		if n, err = strconv.Atoi(strings.TrimPrefix(r.StrVal, "v")); err != nil {
			n = 0
		}
	}
	switch {
	case n == -1:
		return revisionSelector{}, fmt.Errorf("spec.upstream.revision: Invalid value: %s: the content of a branch changes and cannot be cloned; use the number of a published revision, or latest", shown(r))
	case n <= 0:
		return revisionSelector{}, fmt.Errorf("spec.upstream.revision: Invalid value: %s: must be the number of a revision, such as 3 or \"v3\", a semantic version, or latest; a branch cannot be cloned, because its content changes", shown(r))
	}
	return revisionSelector{number: n}, nil
}

func shown(r *intstr.IntOrString) string {
	if r.Type == intstr.String {
		return strconv.Quote(clip(r.StrVal))
	}
	return r.String()
}

// NotFoundError is the error if an Upstream selects no revision that can be cloned.
type NotFoundError struct {
	// Reason of the condition Stalled.
	Reason  string
	Message string
}

func (e *NotFoundError) Error() string { return e.Message }

// FindUpstream returns the revision that a valid Upstream selects, or a NotFoundError. Only
// published revisions can be cloned. Revisions of other packages are ignored.
func FindUpstream(u *configv1alpha1.Upstream, revisions []*storev1alpha1.PackageRevision) (*storev1alpha1.PackageRevision, error) {
	want, err := parseRevision(u.Revision)
	if err != nil {
		return nil, err
	}
	var found, unpublished, branch *storev1alpha1.PackageRevision
	for _, r := range revisions {
		// One that only waits for its finalizers cannot be cloned any more.
		if r.Spec.RepositoryName != u.Repo || r.Spec.PackageName != u.Package || r.DeletionTimestamp != nil {
			continue
		}
		v := version.Of(r)
		if r.Spec.Lifecycle.Published() && v.IsZero() { // the content of a branch, which changes
			if u.WorkspaceName == r.Spec.WorkspaceName {
				branch = r
			}
			continue
		}
		_, tagged := r.Labels[configv1alpha1.LabelTagPrefix+u.Tag]
		if want.number > 0 && r.Spec.Revision != want.number || want.tag != "" && v.Tag != want.tag || want.latest && !v.IsRelease() || u.WorkspaceName != "" && r.Spec.WorkspaceName != u.WorkspaceName || u.Tag != "" && !tagged {
			continue
		}
		switch {
		case !r.Spec.Lifecycle.Published():
			unpublished = r
		// A revision that is proposed for deletion counts like any other, as for the delivery: a
		// proposal is not a deletion, and can be withdrawn. Otherwise a proposal would move
		// packages to a lower revision.
		case found == nil, version.Precedes(found, r):
			found = r
		}
	}
	switch {
	case found != nil:
		return found, nil
	case unpublished != nil && (u.WorkspaceName != "" || u.Tag != ""):
		return nil, &NotFoundError{configv1alpha1.ReasonUpstreamNotPublished, fmt.Sprintf("upstream package revision %s is %s; only a published one can be cloned: approve it", unpublished.Name, lifecycleOf(unpublished))}
	}
	message := fmt.Sprintf("could not find upstream package revision '%s/%s' in repo '%s'", u.Package, denoted(u), u.Repo)
	if branch != nil {
		message += fmt.Sprintf(": %s is the content of a branch, which changes and cannot be cloned: publish a revision, or tag a commit as %s/vN, and use its number or latest", branch.Name, u.Package)
	}
	return nil, &NotFoundError{configv1alpha1.ReasonUpstreamNotFound, message}
}

// denoted returns how an Upstream names its revision.
func denoted(u *configv1alpha1.Upstream) string {
	var parts []string
	if given(u.Revision) {
		parts = append(parts, u.Revision.String())
	}
	if u.WorkspaceName != "" {
		parts = append(parts, u.WorkspaceName)
	}
	if u.Tag != "" {
		parts = append(parts, "tag "+u.Tag)
	}
	return strings.Join(parts, ", ")
}

// lifecycleOf returns the lifecycle of a revision, which is Draft if empty.
func lifecycleOf(r *storev1alpha1.PackageRevision) porchv1alpha1.PackageRevisionLifecycle {
	if r.Spec.Lifecycle == "" {
		return porchv1alpha1.LifecycleDraft
	}
	return r.Spec.Lifecycle
}

// clip truncates a value that a user wrote, for an error.
func clip(value string) string { return text.Clip(value, 100) }
