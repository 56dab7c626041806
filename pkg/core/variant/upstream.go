package variant

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// latest is the word for the highest published revision.
const latest = "latest"

// wanted is what the fields of an Upstream ask for.
type wanted struct {
	number int // 0 if none is named
	latest bool
}

// given tells whether a field that may be left out is there: Porch's clients write 0 for nothing.
func given(r *intstr.IntOrString) bool {
	return r != nil && !(r.Type == intstr.Int && r.IntVal == 0) && !(r.Type == intstr.String && r.StrVal == "")
}

func parseRevision(r *intstr.IntOrString) (wanted, error) {
	if !given(r) {
		return wanted{}, nil
	}
	if r.Type == intstr.String && r.StrVal == latest {
		return wanted{latest: true}, nil
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
		return wanted{}, fmt.Errorf("spec.upstream.revision: Invalid value: %s: the content of a branch moves and cannot be cloned; name a published revision, or latest", shown(r))
	case n <= 0:
		return wanted{}, fmt.Errorf("spec.upstream.revision: Invalid value: %s: must be the number of a revision, such as 3 or \"v3\", or latest", shown(r))
	}
	return wanted{number: n}, nil
}

func shown(r *intstr.IntOrString) string {
	if r.Type == intstr.String {
		return strconv.Quote(clip(r.StrVal))
	}
	return r.String()
}

// NotFoundError says that an Upstream denotes no revision that can be cloned.
type NotFoundError struct {
	// Reason is that of the condition Stalled.
	Reason  string
	Message string
}

func (e *NotFoundError) Error() string { return e.Message }

// FindUpstream returns the revision that an Upstream denotes, which must be valid, or a NotFoundError. Only published revisions can be cloned.
// What is not a revision of the package is passed over.
func FindUpstream(u *configv1alpha1.Upstream, revisions []*storev1alpha1.PackageRevision) (*storev1alpha1.PackageRevision, error) {
	want, err := parseRevision(u.Revision)
	if err != nil {
		return nil, err
	}
	var found, unpublished *storev1alpha1.PackageRevision
	for _, r := range revisions {
		if r.Spec.RepositoryName != u.Repo || r.Spec.PackageName != u.Package || r.Spec.Revision < 0 {
			continue
		}
		_, tagged := r.Labels[configv1alpha1.LabelTagPrefix+u.Tag]
		if want.number > 0 && r.Spec.Revision != want.number || u.WorkspaceName != "" && r.Spec.WorkspaceName != u.WorkspaceName || u.Tag != "" && !tagged {
			continue
		}
		switch {
		case !r.Spec.Lifecycle.Published():
			unpublished = r
		case found == nil, before(found, r):
			found = r
		}
	}
	switch {
	case found != nil:
		return found, nil
	case unpublished != nil && (u.WorkspaceName != "" || u.Tag != ""):
		return nil, &NotFoundError{configv1alpha1.ReasonUpstreamNotPublished, fmt.Sprintf("upstream package revision %s is %s; only a published one can be cloned: approve it", unpublished.Name, lifecycleOf(unpublished))}
	}
	return nil, &NotFoundError{configv1alpha1.ReasonUpstreamNotFound, fmt.Sprintf("could not find upstream package revision '%s/%s' in repo '%s'", u.Package, denoted(u), u.Repo)}
}

// before tells which of two published revisions that fit is the older one. What is proposed for deletion comes before all others: it is
// taken only where nothing else fits.
func before(a, b *storev1alpha1.PackageRevision) bool {
	if going := a.Spec.Lifecycle == porchv1alpha1.LifecycleDeletionProposed; going != (b.Spec.Lifecycle == porchv1alpha1.LifecycleDeletionProposed) {
		return going
	}
	if a.Spec.Revision != b.Spec.Revision {
		return a.Spec.Revision < b.Spec.Revision
	}
	return a.Name < b.Name
}

// denoted is how an Upstream names a revision.
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

// lifecycleOf is where a revision is; nothing is a Draft.
func lifecycleOf(r *storev1alpha1.PackageRevision) porchv1alpha1.PackageRevisionLifecycle {
	if r.Spec.Lifecycle == "" {
		return porchv1alpha1.LifecycleDraft
	}
	return r.Spec.Lifecycle
}

// clip cuts what a user wrote, for an error.
func clip(text string) string {
	const limit = 100
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
