package localfleet

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/pkg/install/token"
)

const (
	// componentToken is how long the token of a component is valid. Each start renews it.
	componentToken = 365 * 24 * time.Hour
	// bootstrapToken is how long a WEC may wait for its approval. Each start renews it.
	bootstrapToken = 7 * 24 * time.Hour
)

// requestToken returns a token of a ServiceAccount in a space.
func (f *Fleet) requestToken(ctx context.Context, space string, a manifest.Account, lifetime time.Duration) (string, error) {
	client, err := kubernetes.NewForConfig(f.adminConfig(space))
	if err != nil {
		return "", err
	}
	text, _, err := token.Request(ctx, client, a, lifetime)
	if err != nil {
		return "", fmt.Errorf("get credentials for space %q: %w", space, err)
	}
	return text, nil
}

// writeTokenKubeconfig writes the kubeconfig with which a component connects to its space, as a
// ServiceAccount.
func (f *Fleet) writeTokenKubeconfig(ctx context.Context, space, component string, a manifest.Account) error {
	text, err := f.requestToken(ctx, space, a, componentToken)
	if err != nil {
		return err
	}
	return f.writeKubeconfig(space, space, component, &clientcmdapi.AuthInfo{Token: text})
}
