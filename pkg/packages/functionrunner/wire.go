package functionrunner

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
)

// response is the result of rendering a package. Unchanged files are not sent back.
type response struct {
	// Running is the function that starts now. The result follows.
	Running string `json:"running,omitempty"`
	// Container is a function that a host must run. The process waits for a containerAnswer.
	Container *containerCall `json:"container,omitempty"`

	Changed kpt.Files                `json:"changed,omitempty"`
	Removed []string                 `json:"removed,omitempty"`
	Results porchv1alpha1.ResultList `json:"results"`
	Error   string                   `json:"error,omitempty"`
	// Package reports that Error is a render.PackageError.
	Package bool `json:"package,omitempty"`
	// Runaway reports that Error is about a function that was stopped.
	Runaway bool `json:"runaway,omitempty"`
}

// containerCall asks for a run of a function that is not built in.
type containerCall struct {
	Image string `json:"image"`
	// List is the ResourceList.
	List string `json:"list"`
}

// containerAnswer answers a containerCall.
type containerAnswer struct {
	functions.Container
	// NotListed: no host has the image.
	NotListed bool   `json:"notListed,omitempty"`
	Error     string `json:"error,omitempty"`
}

// errSize is returned for messages that exceed the limit.
var errSize = errors.New("exceeds the limit")

// send writes a message: four bytes of length, then JSON.
func send(w io.Writer, message any, limit int) error {
	var text bytes.Buffer
	text.Write(make([]byte, lengthBytes))
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // else a package of HTML would be six times as large
	if err := encoder.Encode(message); err != nil {
		return err
	}
	length := text.Len() - lengthBytes
	if length > limit {
		return fmt.Errorf("%d bytes, limit %d: %w", length, limit, errSize)
	}
	binary.BigEndian.PutUint32(text.Bytes(), uint32(length))
	_, err := w.Write(text.Bytes())
	return err
}

// lengthBytes is the size of the length of a message.
const lengthBytes = 4

func receive(r io.Reader, message any, limit int) error {
	var size [lengthBytes]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(size[:])
	if int64(length) > int64(limit) {
		return fmt.Errorf("%d bytes, limit %d: %w", length, limit, errSize)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	return json.Unmarshal(text, message)
}
