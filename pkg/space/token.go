package space

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// componentToken is how long the token of a component lives. It is renewed with every start.
	componentToken = 365 * 24 * time.Hour
	// bootstrapToken is how long a WEC may wait for its approval; a restart begins it anew.
	bootstrapToken = 7 * 24 * time.Hour
)

// account names a ServiceAccount.
type account struct{ namespace, name string }

// requestToken asks a space for a token of a ServiceAccount.
func (f *Fleet) requestToken(ctx context.Context, space string, a account, life time.Duration) (string, error) {
	client, err := kubernetes.NewForConfig(f.adminConfig(space))
	if err != nil {
		return "", err
	}
	expiration := int64(life / time.Second)
	t, err := client.CoreV1().ServiceAccounts(a.namespace).CreateToken(ctx, a.name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &expiration},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask %s for a token of ServiceAccount %s/%s: %w", space, a.namespace, a.name, err)
	}
	return t.Status.Token, nil
}

// writeTokenKubeconfig writes the kubeconfig with which a component reaches a space as a
// ServiceAccount.
func (f *Fleet) writeTokenKubeconfig(ctx context.Context, space, component string, a account) error {
	token, err := f.requestToken(ctx, space, a, componentToken)
	if err != nil {
		return err
	}
	return f.writeComponentKubeconfig(space, component, credentials{token: token})
}
