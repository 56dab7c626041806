package registry

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	packageremote "github.com/starlinghq/starling/pkg/packages/remote"
)

// Status returns the status code in an error of a registry; 0 if there is none.
func Status(err error) int {
	if failed, ok := errors.AsType[*transport.Error](err); ok {
		return failed.StatusCode
	}
	return 0
}

// Classify returns an error of a registry with its kind.
func Classify(err error) error {
	if _, own := errors.AsType[*packageremote.Error](err); own {
		return err
	}
	switch code := Status(err); {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return packageremote.Errorf(packageremote.Unauthorized, "the registry does not accept the credentials: %w", err)
	case code == http.StatusNotFound:
		return packageremote.Errorf(packageremote.NotFound, "%w", err)
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		return packageremote.Errorf(packageremote.Unreachable, "%w", err)
	case errors.Is(err, ErrPlainHTTP) && !unanswered(err):
		return packageremote.Errorf(packageremote.InvalidSpec, "%w", ErrPlainHTTP)
	case errors.Is(err, errRedirected):
		return packageremote.Errorf(packageremote.Unauthorized, "%w", errRedirected)
	case errors.Is(err, errLoopback):
		return packageremote.Errorf(packageremote.Unauthorized, "%w", errLoopback)
	}
	return packageremote.FromNetwork(err)
}

// unanswered reports whether HTTPS failed for another reason than that the registry does not have
// it. Clients try plain HTTP second for private addresses, and return both errors.
func unanswered(err error) bool {
	if _, dial := errors.AsType[*net.OpError](err); dial {
		return true
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return true
	}
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}
