package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/starlinghq/starling/pkg/core/text"
)

// Kind is a class of errors, by what the owner of the Repository has to do.
type Kind string

// Kinds of errors. They are reasons of the condition Ready of a Repository.
const (
	InvalidSpec    Kind = "InvalidSpec"
	SecretNotFound Kind = "SecretNotFound"
	Unauthorized   Kind = "Unauthorized"
	NotFound       Kind = "NotFound"
	Unreachable    Kind = "Unreachable"
	TooLarge       Kind = "TooLarge"
	Other          Kind = "Error"
)

// Error is an error with its Kind. Its text is one line and has no data of a Secret.
type Error struct {
	Kind Kind
	Err  error
}

// Error returns the text.
func (e *Error) Error() string { return line(e.Err.Error()) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error of a kind.
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{kind, fmt.Errorf(format, args...)}
}

// KindOf returns the kind of an error: that of an Error, or one that follows from the network
// error.
func KindOf(err error) Kind {
	var own *Error
	var network net.Error
	switch {
	case errors.As(err, &own):
		return own.Kind
	case isUntrusted(err):
		return Unauthorized // we do not trust the server
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Unreachable
	}
	return Other
}

func isUntrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// FromNetwork returns a network error with its kind. An error about the server's certificate says
// what to do.
func FromNetwork(err error) error {
	if !isUntrusted(err) {
		return &Error{KindOf(err), err}
	}
	const untrusted = "the certificate of the server is not trusted: "
	if named, ok := errors.AsType[x509.HostnameError](err); ok {
		return Errorf(Unauthorized, untrusted+"%w; use a host name of the certificate", named)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return Errorf(Unauthorized, untrusted+"%w", invalid)
	}
	return Errorf(Unauthorized, untrusted+"add the certificate of its CA to the Secret as ca.crt: %w", err)
}

// maxLine bounds the text of an error, in bytes.
const maxLine = 500

// line turns the text of a server into one line of bounded length.
func line(message string) string {
	return text.Clip(text.OneLine(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(message, "?"))), maxLine)
}
