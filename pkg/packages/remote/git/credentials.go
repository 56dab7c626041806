package git

import (
	"cmp"
	"crypto/x509"

	"golang.org/x/crypto/ssh"

	"github.com/starlinghq/starling/pkg/packages/remote"
)

// Keys of the Secret of a git repository that is reached over SSH.
const (
	keyPrivateKey = "ssh-privatekey"
	keyPassphrase = "passphrase"
	keyKnownHosts = "known_hosts"
)

// credentials is the content of the Secret of a repository. It is never part of a text.
type credentials struct {
	username, password, token string
	signer                    ssh.Signer
	knownHosts                []byte
	roots                     *x509.CertPool
}

// parseCredentials parses a Secret; nil means no credentials.
func parseCredentials(secret map[string][]byte) (credentials, error) {
	roots, err := remote.Roots(secret)
	if err != nil {
		return credentials{}, err
	}
	c := credentials{
		username: string(secret[remote.KeyUsername]), password: string(secret[remote.KeyPassword]),
		token:      cmp.Or(string(secret[remote.KeyToken]), string(secret[remote.KeyBearer])),
		knownHosts: secret[keyKnownHosts], roots: roots,
	}
	if key := secret[keyPrivateKey]; len(key) > 0 {
		if passphrase := secret[keyPassphrase]; len(passphrase) > 0 {
			c.signer, err = ssh.ParsePrivateKeyWithPassphrase(key, passphrase)
		} else {
			c.signer, err = ssh.ParsePrivateKey(key)
		}
		if err != nil { // the error of the parser may quote the key
			return credentials{}, remote.Errorf(remote.SecretNotFound, "the key %s of the Secret is invalid: it must be a private key in PEM format; if it is encrypted, the key %s must be its passphrase",
				keyPrivateKey, keyPassphrase)
		}
	}
	return c, nil
}
