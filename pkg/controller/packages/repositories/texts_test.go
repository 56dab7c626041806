package repositories

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	repo := &configv1alpha1.Repository{}
	repo.Namespace, repo.Name = "default", "shop"
	repo.Spec.Type, repo.Spec.Deployment = configv1alpha1.RepositoryTypeGit, true
	repo.Spec.Sync = &configv1alpha1.RepositorySync{Schedule: "every hour"}
	now := time.Unix(1e9, 0)
	condition := func(kind string, r result) golden.Text {
		status := desiredStatus(repo, newRevisions(nil), &r, now, now)
		c := meta.FindStatusCondition(status.Conditions, kind)
		if c == nil {
			t.Fatalf("no condition %s", kind)
		}
		return golden.Text{Heading: fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason), Text: c.Message}
	}
	moved := func(n int) map[string]finding {
		all := map[string]finding{}
		for i := range n {
			tag := fmt.Sprintf("web/v%d", i+1)
			all[tag] = finding{moved: fmt.Sprintf("%s (revision shop.web.v%d)", tag, i+1)}
		}
		return all
	}
	_, schedule := parseSchedule(repo.Spec.Sync)
	rewritten := branchRewritten(repo, "main", "5d7a4c1", "c01dbee")
	problems := func(n int) []configv1alpha1.RepositoryError {
		all := make([]configv1alpha1.RepositoryError, n)
		for i := range all {
			all[i] = configv1alpha1.RepositoryError{Ref: "main", Package: "web", Message: placeholderUsed("default/shop.web.v1")}
		}
		return errorsOf(&result{problems: all})
	}
	golden.Texts(t,
		condition(configv1alpha1.RepositoryConditionReady, result{failed: checkSecretType(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token"}, Type: corev1.SecretTypeOpaque})}),
		condition(configv1alpha1.RepositoryConditionReady, result{failed: remote.Errorf(remote.SecretNotFound, "Secret %q does not exist in namespace %q", "token", "default")}),
		condition(configv1alpha1.RepositoryConditionReady, result{failed: remote.Errorf(remote.InvalidSpec, "%w", schedule)}),
		condition(configv1alpha1.RepositoryConditionConsistent, result{rewritten: rewritten}),
		condition(configv1alpha1.RepositoryConditionConsistent, result{rewritten: branchMissing("main")}),
		condition(configv1alpha1.RepositoryConditionConsistent, result{findings: moved(1)}),
		condition(configv1alpha1.RepositoryConditionConsistent, result{findings: moved(7)}),
		condition(configv1alpha1.RepositoryConditionConsistent, result{findings: map[string]finding{
			"web/v1": {id: "5d7a4c1", moved: "web/v1 (revision shop.web.v1)", acceptable: true}, "web/v2": {id: "c01dbee", moved: "web/v2 (revision shop.web.v2)", acceptable: true},
		}}),
		condition(configv1alpha1.RepositoryConditionConsistent, result{missing: []string{"web/v1"}}),
		condition(configv1alpha1.RepositoryConditionConsistent, result{missing: []string{"web/v1", "web/v2"}}),
		condition(configv1alpha1.RepositoryConditionConsistent, result{rewritten: branchMissing("main"), missing: []string{"web/v1"}}),
		condition(configv1alpha1.RepositoryConditionExported, result{waiting: 1}),
		condition(configv1alpha1.RepositoryConditionExported, result{conflicts: []string{"web/v3 (revision shop.web.v3)"}}),
		condition(configv1alpha1.RepositoryConditionExported, result{exportFailed: errors.New("export 2 revisions: push: permission denied")}),
		condition(configv1alpha1.RepositoryConditionExported, result{loss: loss{tags: []string{"web/v1"}}}),
		condition(configv1alpha1.RepositoryConditionExported, result{loss: loss{tags: []string{"web/v1", "web/v2"}}}),
		condition(configv1alpha1.RepositoryConditionExported, result{loss: loss{reason: configv1alpha1.ReasonBranchMissing, message: branchGone(repo, "c01dbee")}}),
		condition(configv1alpha1.RepositoryConditionExported, result{loss: loss{reason: configv1alpha1.ReasonBranchMissing, message: repositoryEmpty(repo, []string{"db"})}}),
		condition(configv1alpha1.RepositoryConditionExported, result{loss: loss{reason: configv1alpha1.ReasonHistoryRewritten, message: historyHolds}}),
		golden.Text{Heading: "status.errors: the branch lost a package", Text: problems(1)[0].Message},
		golden.Text{Heading: "status.errors: more than fit", Text: problems(30)[maxErrors-1].Message},
	)
}
