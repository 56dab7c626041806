package functions

import (
	"crypto/md5"  //nolint:gosec // a checksum that programs ask for
	"crypto/sha1" //nolint:gosec // a checksum that programs ask for
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"

	"go.starlark.net/lib/json"
	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// libraries are what programs may load.
var libraries = map[string]starlark.StringDict{
	"encoding/json.star":   {"json": json.Module},
	"math.star":            {"math": math.Module},
	"encoding/base64.star": {"base64": module("base64", map[string]textFunction{"encode": encodeBase64, "decode": decodeBase64})},
	"encoding/yaml.star": {"yaml": &starlarkstruct.Module{Name: "yaml", Members: starlark.StringDict{
		"loads": starlark.NewBuiltin("loads", yamlLoads), "dumps": starlark.NewBuiltin("dumps", yamlDumps),
	}}},
	"hash.star": {"hash": module("hash", map[string]textFunction{
		"md5":    func(text, _ string) (string, error) { return sum(md5.New(), text), nil },  //nolint:gosec // a checksum that programs ask for
		"sha1":   func(text, _ string) (string, error) { return sum(sha1.New(), text), nil }, //nolint:gosec // a checksum that programs ask for
		"sha256": func(text, _ string) (string, error) { return sum(sha256.New(), text), nil },
	})},
}

func sum(h hash.Hash, text string) string {
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

func libraryNames() []string { return slices.Sorted(maps.Keys(libraries)) }

// textFunction makes text of text; the option is a second argument, "" if it is not given.
type textFunction func(text, option string) (string, error)

func module(name string, functions map[string]textFunction) *starlarkstruct.Module {
	members := starlark.StringDict{}
	for member, f := range functions {
		members[member] = starlark.NewBuiltin(member, func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var text, option string
			if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &text, &option); err != nil {
				return nil, err
			}
			out, err := f(text, option)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", b.Name(), err)
			}
			return starlark.String(out), nil
		})
	}
	return &starlarkstruct.Module{Name: name, Members: members}
}

func base64Encoding(name string) (*base64.Encoding, error) {
	switch name {
	case "", "standard":
		return base64.StdEncoding, nil
	case "standard_raw":
		return base64.RawStdEncoding, nil
	case "url":
		return base64.URLEncoding, nil
	case "url_raw":
		return base64.RawURLEncoding, nil
	}
	return nil, fmt.Errorf("encoding %q is not known; known are standard, standard_raw, url, url_raw", name)
}

func encodeBase64(text, option string) (string, error) {
	encoding, err := base64Encoding(option)
	if err != nil {
		return "", err
	}
	return encoding.EncodeToString([]byte(text)), nil
}

func decodeBase64(text, option string) (string, error) {
	encoding, err := base64Encoding(option)
	if err != nil {
		return "", err
	}
	out, err := encoding.DecodeString(text)
	return string(out), err
}

func yamlLoads(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &text); err != nil {
		return nil, err
	}
	documents, err := kptpkg.Documents(text)
	if err != nil || len(documents) == 0 {
		return starlark.None, err
	}
	return toStarlark(documents[0].YNode(), 0)
}

func yamlDumps(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var value starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &value); err != nil {
		return nil, err
	}
	n, err := fromStarlark(value, 0)
	if err != nil {
		return nil, err
	}
	out, err := yaml.Marshal(n)
	return starlark.String(out), err
}
