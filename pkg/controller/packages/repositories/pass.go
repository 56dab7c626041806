package repositories

import (
	"context"
	"fmt"
	"maps"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

const (
	// importers is how many revisions are written at once; each holds its files in memory.
	importers = 8
	// exportRevisions and exportBytes bound one push.
	exportRevisions = 50
	exportBytes     = 32 << 20
	// firstBytes bounds the push that creates a branch again: with one revision of each package.
	firstBytes = 128 << 20
)

// pass is one synchronization of a Repository with its repository.
type pass struct {
	*Controller
	repo   *configv1alpha1.Repository
	state  *state
	here   *revisions
	remote Remote
	// newest is the highest number of each package, in the WDS or in the repository.
	newest map[string]int
	// latest is the version of the latest revision of each package, in the WDS or in the
	// repository.
	latest map[string]version.Version

	mutex sync.Mutex
	// reserved are the packages whose numbers are reserved.
	reserved map[string]*reservation
	findings map[string]finding
	problems []configv1alpha1.RepositoryError
	created  int
	updated  int
}

// run makes the pass, and reports whether to make another one at once. Failures of the repository
// are part of the result.
func (p *pass) run(ctx context.Context) (again bool, err error) {
	result := p.state.result // what the pass does not reach stays as it was
	result.failed, result.exportFailed = nil, nil
	defer func() {
		if err == nil {
			p.state.result = result
		}
	}()
	// Findings of the last pass stay valid while tags and revisions stay the same.
	p.findings = maps.Clone(p.state.result.findings)

	listing, err := p.open(ctx)
	if p.remote != nil {
		defer p.remote.Close()
	}
	if err != nil {
		result.failed = err
		if !p.repo.Spec.Exports() { // deletion must not wait for a repository that is only read
			return false, p.release(ctx, terminating(p.here))
		}
		return false, nil
	}
	p.findings = validFindings(p.repo, p.findings, listing, p.here)
	if failed, err := p.importTags(ctx, listing); failed != nil || err != nil {
		result.failed = failed
		return false, err
	}
	commit, failed, err := p.importBranch(ctx, listing, &result)
	if failed != nil || err != nil {
		result.failed = failed
		return false, err
	}
	if err := p.movedBack(ctx, listing); err != nil {
		return false, err
	}
	result.commit = commit
	result.missing, result.unread = refsOf(missing(listing, p.here)), listing.Unread
	result.findings = p.findings
	if p.created+p.updated > 0 {
		klog.FromContext(ctx).V(2).Info("Imported revisions", "created", p.created, "updated", p.updated)
	}
	again, failed, err = p.export(ctx, listing, &result)
	if err != nil {
		return false, err
	}
	kept, err := p.remove(ctx, listing)
	if result.exportFailed = failed; failed == nil {
		result.exportFailed = kept
	}
	return again, err
}

// open opens and lists the repository.
func (p *pass) open(ctx context.Context) (*remote.Listing, error) {
	var secret map[string][]byte
	if name := secretName(&p.repo.Spec); name != "" {
		stored, err := p.client.CoreV1().Secrets(p.repo.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, remote.Errorf(remote.SecretNotFound, "Secret %q does not exist in namespace %q", name, p.repo.Namespace)
		}
		if err != nil {
			return nil, fmt.Errorf("read Secret %q: %w", name, err)
		}
		if wrong := checkSecretType(stored); wrong != nil {
			return nil, wrong
		}
		secret = stored.Data
	}
	var err error
	if p.remote, err = p.openRemote(secret, known{
		exported: exportedPackages(&p.repo.Spec, p.here), branch: wasImported(p.here, p.state.result.commit),
	}); err != nil {
		return nil, err
	}
	return p.remote.List(ctx)
}

// record records the finding about a tag.
func (p *pass) record(tag string, j finding) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.findings[tag] = j
}
