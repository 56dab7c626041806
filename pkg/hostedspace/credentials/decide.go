package credentials

import (
	"bytes"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// SpaceLabel is the label of the Secrets that this package writes. Its value is the name of the
	// space.
	SpaceLabel = "starling.io/space-credentials"
	// ExpiresAnnotation is when the token expires, in RFC 3339.
	ExpiresAnnotation = "starling.io/token-expires"
	// AccountAnnotation is the ServiceAccount in the space, as NAMESPACE/NAME.
	AccountAnnotation = "starling.io/service-account"
)

// Keys of a Secret. A pod mounts them as files of one directory.
const (
	keyKubeconfig = "kubeconfig"
	keyToken      = corev1.ServiceAccountTokenKey
	keyCA         = corev1.ServiceAccountRootCAKey
)

// ForeignError means that a Secret with the name of a credential belongs to someone else. It is
// never overwritten.
type ForeignError struct {
	Namespace, Name string
	// Space is the space that the Secret is for, or "" if it is not a credential of a space.
	Space string
}

// Error implements error.
func (e *ForeignError) Error() string {
	if e.Space != "" {
		return fmt.Sprintf("write Secret \"%s/%s\": it has the credentials of space %q, and is not overwritten: use another --secret-prefix for each space",
			e.Namespace, e.Name, e.Space)
	}
	return fmt.Sprintf("write Secret \"%s/%s\": it was not written by this command, since it has no label %s, and is not overwritten: delete it, or use another --secret-prefix",
		e.Namespace, e.Name, SpaceLabel)
}

// WrongSpaceError means that the kubeconfig is that of another space than the credentials are for.
type WrongSpaceError struct{ Want, Recorded string }

// Error implements error.
func (e *WrongSpaceError) Error() string {
	return fmt.Sprintf("keep the credentials of space %q: the kubeconfig is that of space %q: use --space %s, or another --kubeconfig",
		e.Want, e.Recorded, e.Recorded)
}

// decide returns why a new token is needed, or "" if the Secret may stay as it is. The Secret is
// nil if it does not exist. It returns a ForeignError if the Secret belongs to someone else.
func decide(r *Request, c Credential, secret *corev1.Secret, now time.Time) (reason string, err error) {
	if secret == nil {
		return "it does not exist", nil
	}
	if space := secret.Labels[SpaceLabel]; space != r.Space {
		return "", &ForeignError{Namespace: secret.Namespace, Name: secret.Name, Space: space}
	}
	want, err := content(r, c)
	if err != nil {
		return "", err
	}
	for key, text := range want {
		if !bytes.Equal(secret.Data[key], text) {
			return "its key " + key + " is not as it should be", nil
		}
	}
	if len(secret.Data) != len(want)+1 || len(secret.Data[keyToken]) == 0 {
		return "its keys are not those of a credential", nil
	}
	if account := secret.Annotations[AccountAnnotation]; account != c.Account.String() {
		return "it is for another ServiceAccount", nil
	}
	expires, err := time.Parse(time.RFC3339, secret.Annotations[ExpiresAnnotation])
	switch left := expires.Sub(now); {
	case err != nil:
		return "the annotation " + ExpiresAnnotation + " is missing or invalid", nil //nolint:nilerr // it is decided here
	case left < r.RenewBefore:
		return fmt.Sprintf("less than %s is left of its lifetime", r.RenewBefore), nil
	// The clocks of this machine and of the space may differ by a minute.
	case left > r.Lifetime+time.Minute:
		return fmt.Sprintf("its lifetime is longer than %s", r.Lifetime), nil
	}
	return "", nil
}

// content returns the keys of a Secret except the token.
func content(r *Request, c Credential) (map[string][]byte, error) {
	cluster := &clientcmdapi.Cluster{Server: r.Server, TLSServerName: r.ServerName}
	if len(r.CA) > 0 {
		cluster.CertificateAuthority = keyCA
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[r.Space] = cluster
	kubeconfig.AuthInfos[c.Name] = &clientcmdapi.AuthInfo{TokenFile: keyToken}
	kubeconfig.Contexts[r.Space] = &clientcmdapi.Context{Cluster: r.Space, AuthInfo: c.Name}
	kubeconfig.CurrentContext = r.Space
	text, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig of credential %q: %w", c.Name, err)
	}
	data := map[string][]byte{keyKubeconfig: text}
	if len(r.CA) > 0 {
		data[keyCA] = r.CA
	}
	return data, nil
}

// desired returns the Secret with a new token. Labels and annotations of others stay. The old
// Secret may be nil.
func desired(r *Request, c Credential, old *corev1.Secret, token string, expires time.Time) (*corev1.Secret, error) {
	data, err := content(r, c)
	if err != nil {
		return nil, err
	}
	data[keyToken] = []byte(token)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.secretName(c)},
		Type:       corev1.SecretTypeOpaque,
	}
	if old != nil {
		secret = old.DeepCopy()
	}
	secret.Data = data
	set := func(values *map[string]string, more map[string]string) {
		if *values == nil {
			*values = map[string]string{}
		}
		maps.Copy(*values, more)
	}
	set(&secret.Labels, map[string]string{SpaceLabel: r.Space, "app.kubernetes.io/part-of": "starling"})
	set(&secret.Annotations, map[string]string{
		ExpiresAnnotation: expires.UTC().Format(time.RFC3339), AccountAnnotation: c.Account.String(),
	})
	return secret, nil
}
