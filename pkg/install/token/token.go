// Package token requests tokens of ServiceAccounts.
package token

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/starlinghq/starling/pkg/install/manifest"
)

// Request returns a new token of a ServiceAccount, and when it expires. API servers may grant a
// shorter lifetime than requested. The error wraps that of the API server.
func Request(ctx context.Context, client kubernetes.Interface, a manifest.Account, lifetime time.Duration) (token string, expires time.Time, err error) {
	seconds := int64(lifetime / time.Second)
	t, err := client.CoreV1().ServiceAccounts(a.Namespace).CreateToken(ctx, a.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("create a token of ServiceAccount %q: %w", a, err)
	}
	return t.Status.Token, t.Status.ExpirationTimestamp.Time, nil
}
