package functions

import (
	"crypto/md5"  //nolint:gosec // a checksum for programs
	"crypto/sha1" //nolint:gosec // a checksum for programs
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"

	"go.starlark.net/lib/json"
	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// libraries are the libraries that programs may load.
var libraries = map[string]starlark.StringDict{
	"encoding/json.star": {"json": json.Module},
	"math.star":          {"math": math.Module},
	"encoding/base64.star": {"base64": module("base64", map[string]textFunction{
		"encode": withEncoding(func(encoding *base64.Encoding, text string) (string, error) {
			return encoding.EncodeToString([]byte(text)), nil
		}),
		"decode": withEncoding(func(encoding *base64.Encoding, text string) (string, error) {
			out, err := encoding.DecodeString(text)
			return string(out), err
		}),
	})},
	"encoding/yaml.star": {"yaml": &starlarkstruct.Module{Name: "yaml", Members: starlark.StringDict{
		"loads": starlark.NewBuiltin("loads", yamlLoads), "dumps": starlark.NewBuiltin("dumps", yamlDumps),
	}}},
	"hash.star": {"hash": module("hash", map[string]textFunction{
		"md5":    func(text, _ string) (string, error) { return sum(md5.New(), text), nil },  //nolint:gosec // a checksum for programs
		"sha1":   func(text, _ string) (string, error) { return sum(sha1.New(), text), nil }, //nolint:gosec // a checksum for programs
		"sha256": func(text, _ string) (string, error) { return sum(sha256.New(), text), nil },
	})},
}

func sum(h hash.Hash, text string) string {
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

// textFunction converts a string. The option is an optional second argument.
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

var encodings = map[string]*base64.Encoding{
	"": base64.StdEncoding, "standard": base64.StdEncoding, "standard_raw": base64.RawStdEncoding, "url": base64.URLEncoding, "url_raw": base64.RawURLEncoding,
}

// withEncoding calls convert with the base64 encoding of a name.
func withEncoding(convert func(*base64.Encoding, string) (string, error)) textFunction {
	return func(text, name string) (string, error) {
		encoding, known := encodings[name]
		if !known {
			return "", fmt.Errorf("unknown encoding %q; use standard, standard_raw, url or url_raw", name)
		}
		return convert(encoding, text)
	}
}

func yamlLoads(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &text); err != nil {
		return nil, err
	}
	documents, err := kpt.Documents(text)
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
