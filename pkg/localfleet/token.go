package localfleet

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// componentToken is how long the token of a component is valid. Each start renews it.
	componentToken = 365 * 24 * time.Hour
	// bootstrapToken is how long a WEC may wait for its approval. Each start renews it.
	bootstrapToken = 7 * 24 * time.Hour
)

// account identifies a ServiceAccount.
type account struct{ namespace, name string }

// requestToken returns a token of a ServiceAccount in a space.
func (f *Fleet) requestToken(ctx context.Context, space string, a account, lifetime time.Duration) (string, error) {
	client, err := kubernetes.NewForConfig(f.adminConfig(space))
	if err != nil {
		return "", err
	}
	expiration := int64(lifetime / time.Second)
	t, err := client.CoreV1().ServiceAccounts(a.namespace).CreateToken(ctx, a.name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &expiration},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a token of ServiceAccount \"%s/%s\" in space %q: %w", a.namespace, a.name, space, err)
	}
	return t.Status.Token, nil
}

// writeTokenKubeconfig writes the kubeconfig with which a component connects to its space, as a
// ServiceAccount.
func (f *Fleet) writeTokenKubeconfig(ctx context.Context, space, component string, a account) error {
	token, err := f.requestToken(ctx, space, a, componentToken)
	if err != nil {
		return err
	}
	return f.writeKubeconfig(space, space, component, &clientcmdapi.AuthInfo{Token: token})
}
