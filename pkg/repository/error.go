package repository

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// Kind is a class of errors: what whoever owns the Repository has to do about them.
type Kind string

// Kinds of errors, which are reasons of the condition Ready of a Repository.
const (
	InvalidSpec    Kind = "InvalidSpec"
	SecretNotFound Kind = "SecretNotFound"
	Unauthorized   Kind = "Unauthorized"
	NotFound       Kind = "NotFound"
	Unreachable    Kind = "Unreachable"
	TooLarge       Kind = "TooLarge"
	Other          Kind = "Error"
)

// Error is an error with its Kind. Its text is one line without anything of a Secret.
type Error struct {
	Kind Kind
	Err  error
}

// Error returns the text.
func (e *Error) Error() string { return line(e.Err.Error()) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error of that kind.
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{kind, fmt.Errorf(format, args...)}
}

// KindOf returns the kind of an error: its own, or that of what the network said.
func KindOf(err error) Kind {
	var own *Error
	var network net.Error
	switch {
	case errors.As(err, &own):
		return own.Kind
	case untrusted(err):
		return Unauthorized // the server, by us
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Unreachable
	}
	return Other
}

func untrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// FromNetwork gives an error of the network its kind. One about the server's certificate says what helps.
func FromNetwork(err error) error {
	if !untrusted(err) {
		return &Error{KindOf(err), err}
	}
	const text = "the server's certificate is not trusted: "
	if named, ok := errors.AsType[x509.HostnameError](err); ok {
		return Errorf(Unauthorized, text+"%w; use a name that it is for", named)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return Errorf(Unauthorized, text+"%w", invalid)
	}
	return Errorf(Unauthorized, text+"put that of its authority into the Secret, as ca.crt: %w", err)
}

// line makes what a server said one line of bounded length.
func line(text string) string {
	const limit = 500
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
