package fnworker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/functions"
	"github.com/starlinghq/starling/pkg/core/kptpkg/render"
)

// request is a call of a function, or the rendering of a whole package. Objects go as YAML, so that comments go along.
type request struct {
	Image  string `json:"image,omitempty"`
	Config string `json:"config,omitempty"`
	Items  []item `json:"items,omitempty"`

	// Render says that Files are to be rendered.
	Render bool         `json:"render,omitempty"`
	Files  kptpkg.Files `json:"files,omitempty"`
}

type item struct {
	Path  string `json:"path,omitempty"`
	Index int    `json:"index,omitempty"`
	Text  string `json:"text,omitempty"`
	// Same is one more than the place of the object in the request that this one is, unchanged.
	Same int `json:"same,omitempty"`
}

type response struct {
	// Running is the function that begins now. The answer is still to come.
	Running string `json:"running,omitempty"`

	Items   []item             `json:"items,omitempty"`
	Results []functions.Result `json:"results,omitempty"`
	Stderr  string             `json:"stderr,omitempty"`
	Error   string             `json:"error,omitempty"`
	// Runaway says that the error is that a function was stopped.
	Runaway bool `json:"runaway,omitempty"`

	// Rendering is the answer for a package.
	Rendering *rendering `json:"rendering,omitempty"`
}

// rendering is what became of a package. Files that are as they were sent are not sent back.
type rendering struct {
	Changed kptpkg.Files      `json:"changed,omitempty"`
	Removed []string          `json:"removed,omitempty"`
	Results render.ResultList `json:"results"`
	// Package tells that Error of the response is a render.PackageError.
	Package bool `json:"package,omitempty"`
}

// errSize is for messages that are larger than is allowed.
var errSize = errors.New("is larger than is allowed")

// send writes a message: its length in four bytes, and JSON.
func send(w io.Writer, message any, limit int) error {
	var text bytes.Buffer
	text.Write(make([]byte, lengthBytes))
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // or a package of HTML would be six times as long
	if err := encoder.Encode(message); err != nil {
		return err
	}
	length := text.Len() - lengthBytes
	if length > limit {
		return fmt.Errorf("%d bytes, at most %d: %w", length, limit, errSize)
	}
	binary.BigEndian.PutUint32(text.Bytes(), uint32(length))
	_, err := w.Write(text.Bytes())
	return err
}

// lengthBytes is how many bytes say how long a message is.
const lengthBytes = 4

func receive(r io.Reader, message any, limit int) error {
	var size [lengthBytes]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(size[:])
	if int64(length) > int64(limit) {
		return fmt.Errorf("%d bytes, at most %d: %w", length, limit, errSize)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	return json.Unmarshal(text, message)
}

func encode(in []functions.Item) ([]item, error) {
	out := make([]item, 0, len(in))
	for _, i := range in {
		text, err := i.Node.String()
		if err != nil {
			return nil, err
		}
		out = append(out, item{Path: i.Path, Index: i.Index, Text: text})
	}
	return out, nil
}

func decode(text string) (*yaml.RNode, error) {
	documents, err := kptpkg.Documents(text)
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 {
		return nil, fmt.Errorf("%d documents, want one", len(documents))
	}
	return documents[0], nil
}
