package plugin

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
)

// ExitFailed is the exit code after an error without one of its own.
const ExitFailed = 1

// CodedError is an error with its own exit code.
type CodedError struct {
	// Err is the error. It may be ErrSilent.
	Err error
	// Code is the exit code.
	Code int
}

// Error implements error.
func (e CodedError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e CodedError) Unwrap() error { return e.Err }

// ErrSilent has an exit code and no text: the errors were already printed.
var ErrSilent = errors.New("")

// Report prints an error and returns the exit code.
func Report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	if text := Message(err); text != "" {
		fmt.Fprintln(w, text)
	}
	if coded, ok := errors.AsType[CodedError](err); ok {
		return coded.Code
	}
	return ExitFailed
}

// Message returns an error in kubectl's words, safe for a terminal.
func Message(err error) string { return Escape(describeError(err)) }

func describeError(err error) string {
	if err.Error() == "" {
		return ""
	}
	if address, ok := errors.AsType[*url.Error](err); ok {
		return unreachable(address)
	}
	if clientcmd.IsConfigurationInvalid(err) || clientcmd.IsEmptyConfig(err) {
		return "error: " + strings.TrimPrefix(err.Error(), "error: ") // a prefix of some errors of clientcmd, client-go v0.35
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		if reason := status.Status().Reason; reason != "" {
			return fmt.Sprintf("Error from server (%s): %s", reason, err)
		}
		return "Error from server: " + err.Error()
	}
	return "error: " + err.Error()
}

func unreachable(err *url.Error) string {
	if errors.Is(err, syscall.ECONNREFUSED) {
		host := err.URL
		if server, parseErr := url.Parse(err.URL); parseErr == nil {
			host = server.Host
		}
		return fmt.Sprintf("The connection to the server %s was refused - did you specify the right host or port?", host)
	}
	return fmt.Sprintf("Unable to connect to the server: %v", err.Err)
}
