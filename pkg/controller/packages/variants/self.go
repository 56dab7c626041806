package variants

import (
	"context"
	"fmt"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// self is the identity of the controller in the WDS, as package-server records it in authors.
type self struct {
	reviews authenticationclient.SelfSubjectReviewInterface

	mu   sync.Mutex
	user string
}

// name returns the user name. The first successful call takes a request.
func (s *self) name(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.user != "" {
		return s.user, nil
	}
	review, err := s.reviews.Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("read the user name of the controller: %w", err)
	}
	s.user = review.Status.UserInfo.Username
	return s.user, nil
}
