package client

import (
	"context"
	"fmt"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
)

// Self is the user of a client, as the API server authenticates it. It is safe for concurrent use.
type Self struct {
	reviews authenticationclient.SelfSubjectReviewInterface

	mu   sync.Mutex
	user string
}

// NewSelf returns the user of a configuration.
func NewSelf(config *rest.Config) (*Self, error) {
	authentication, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client: %w", err)
	}
	return &Self{reviews: authentication.SelfSubjectReviews()}, nil
}

// Name returns the user name. The first successful call takes a request.
func (s *Self) Name(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.user != "" {
		return s.user, nil
	}
	review, err := s.reviews.Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("read the own user name: %w", err)
	}
	s.user = review.Status.UserInfo.Username
	return s.user, nil
}
