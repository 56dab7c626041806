package git

import (
	"crypto/x509"

	"golang.org/x/crypto/ssh"

	"github.com/starlinghq/starling/pkg/repository"
)

// Keys of the Secret of a git repository.
const (
	keyUsername   = "username"
	keyPassword   = "password"
	keyToken      = "token"
	keyBearer     = "bearerToken" // as Porch calls it
	keyPrivateKey = "ssh-privatekey"
	keyPassphrase = "passphrase"
	keyKnownHosts = "known_hosts"
	keyCA         = "ca.crt"
)

// credentials are what the Secret of a repository holds. They are never part of a text.
type credentials struct {
	username, password, token string
	signer                    ssh.Signer
	knownHosts                []byte
	roots                     *x509.CertPool
}

// parseCredentials reads a Secret; nil is none.
func parseCredentials(secret map[string][]byte) (credentials, error) {
	c := credentials{
		username: string(secret[keyUsername]), password: string(secret[keyPassword]), token: string(secret[keyToken]),
		knownHosts: secret[keyKnownHosts],
	}
	if c.token == "" {
		c.token = string(secret[keyBearer])
	}
	if key := secret[keyPrivateKey]; len(key) > 0 {
		var err error
		if passphrase := secret[keyPassphrase]; len(passphrase) > 0 {
			c.signer, err = ssh.ParsePrivateKeyWithPassphrase(key, passphrase)
		} else {
			c.signer, err = ssh.ParsePrivateKey(key)
		}
		if err != nil { // what the parser says may quote the key
			return credentials{}, repository.Errorf(repository.SecretNotFound, "the Secret's %s cannot be read: it must be a private key in PEM, and its %s must be right if it has one",
				keyPrivateKey, keyPassphrase)
		}
	}
	if bundle := secret[keyCA]; len(bundle) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(bundle) {
			return credentials{}, repository.Errorf(repository.SecretNotFound, "the Secret's %s holds no certificate in PEM", keyCA)
		}
		c.roots = roots
	}
	return c, nil
}
