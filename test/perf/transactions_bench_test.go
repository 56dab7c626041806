package main

import (
	"bytes"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	core "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/xpkg"
	"github.com/starlinghq/starling/test/testxpkg"
)

// BenchmarkParse parses a package.yaml with n CRDs of 33 kB: as registries have it, and as it is
// cached.
func BenchmarkParse(b *testing.B) {
	for _, n := range []int{9, 90, 900} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			objects := make([]*unstructured.Unstructured, n)
			for i := range objects {
				objects[i] = definition("large.example.org", fmt.Sprintf("Kind%03d", i), 60, 0)
			}
			content, err := xpkg.Format(testxpkg.Provider("large", objects...))
			if err != nil {
				b.Fatal(err)
			}
			var compact bytes.Buffer
			if err := core.Compact(&compact, bytes.NewReader(content)); err != nil {
				b.Fatal(err)
			}
			for form, content := range map[string][]byte{"fetched": content, "cached": compact.Bytes()} {
				b.Run(form, func(b *testing.B) {
					b.SetBytes(int64(len(content)))
					b.ReportAllocs()
					for b.Loop() {
						if _, err := core.Parse(bytes.NewReader(content)); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}
