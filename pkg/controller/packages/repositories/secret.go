package repositories

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

// secretTypes are the types of Secrets for repositories. Others are for other readers: their
// content must not be sent to a server that the author of a Repository names.
var secretTypes = []corev1.SecretType{
	corev1.SecretTypeBasicAuth, corev1.SecretTypeSSHAuth, corev1.SecretTypeDockerConfigJson, configv1alpha1.RepositorySecretType,
}

// checkSecretType returns an error if a Secret is not for repositories.
func checkSecretType(secret *corev1.Secret) error {
	if slices.Contains(secretTypes, secret.Type) {
		return nil
	}
	names := make([]string, len(secretTypes))
	for i, name := range secretTypes {
		names[i] = string(name)
	}
	return remote.Errorf(remote.SecretNotFound, "Secret %q has type %q, which is not for repositories: create it with one of the types %s",
		secret.Name, secret.Type, text.List(names, len(names)))
}
