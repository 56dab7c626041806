package xpkg

import (
	"errors"
	"fmt"

	"github.com/starlinghq/starling/pkg/core/text"
)

// InvalidPackageError is an error in the content of a package. The same content always has it, so
// trying again does not help. Its text is one line of bounded length.
type InvalidPackageError struct {
	Message string
}

// Error returns the text.
func (e *InvalidPackageError) Error() string { return e.Message }

// maxMessage bounds the text of an error, in bytes.
const maxMessage = 500

// Invalidf returns an InvalidPackageError.
func Invalidf(format string, args ...any) error {
	return &InvalidPackageError{text.Clip(text.OneLine(fmt.Sprintf(format, args...)), maxMessage)}
}

// IsInvalid reports whether an error is about the content of a package.
func IsInvalid(err error) bool {
	_, ok := errors.AsType[*InvalidPackageError](err)
	return ok
}
