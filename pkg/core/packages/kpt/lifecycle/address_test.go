package lifecycle_test

import (
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
)

func TestWithoutCredentials(t *testing.T) {
	for address, want := range map[string]string{
		"https://host/r.git":           "https://host/r.git",
		"https://me:secret@host/r.git": "https://host/r.git",
		"https://token@host/r.git":     "https://host/r.git",
		"https://a:b@c@host/r.git":     "https://host/r.git",
		"https://host/r@v1":            "https://host/r@v1",
		"HTTPS://me:secret@host":       "HTTPS://host",
		"ssh://git@host/r":             "ssh://git@host/r",
		"ssh://git:secret@host/r":      "ssh://git@host/r",
		"git@host:r":                   "git@host:r",
		"hub:default/up":               "hub:default/up",
		"file:///tmp/a@b":              "file:///tmp/a@b",
		"git+https://me:secret@host/r": "git+https://host/r",
		"":                             "",
	} {
		if got := lifecycle.WithoutCredentials(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
