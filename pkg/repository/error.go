package repository

import (
	"context"
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
	var unknownAuthority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	switch {
	case errors.As(err, &own):
		return own.Kind
	case errors.As(err, &unknownAuthority), errors.As(err, &hostname):
		return Unauthorized // the server, by us: ca.crt is missing
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Unreachable
	}
	return Other
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
