package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/text"
)

func TestList(t *testing.T) {
	for name, tc := range map[string]struct {
		items []string
		limit int
		want  string
	}{
		"None":     {nil, 2, ""},
		"All":      {[]string{"a", "b"}, 2, "a, b"},
		"More":     {[]string{"a", "b", "c", "d"}, 2, "a, b … and 2 more"},
		"OnlyRest": {[]string{"a", "b"}, 0, "… and 2 more"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, text.List(tc.items, tc.limit)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := text.Join([]string{"a", "b", "c"}, "; ", 2); got != "a; b … and 1 more" {
		t.Errorf("Join: %q", got)
	}
}

func TestBound(t *testing.T) {
	items := []string{"a", "b", "c"}
	got := text.Bound(items, 1)
	if diff := cmp.Diff([]string{"a", "… and 2 more"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, items); diff != "" {
		t.Errorf("the argument changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(items, text.Bound(items, 3)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCount(t *testing.T) {
	got := []string{
		text.Count(0, "object"), text.Count(1, "object"), text.Count(int64(2), "object"), text.Count(1, "policy|policies"),
		text.Count(3, "policy|policies"), text.Plural(1, "is", "are"), text.Plural(2, "is", "are"),
		text.OneLine(" a\n\tb  c\n"),
	}
	want := []string{"0 objects", "1 object", "2 objects", "1 policy", "3 policies", "is", "are", "a b c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzClip(f *testing.F) {
	f.Add("short", 10)
	f.Add("äöüäöüäöü", 8)
	f.Add("a…b…c…d", 5)
	f.Fuzz(func(t *testing.T, given string, limit int) {
		if limit < len(text.Ellipsis) || limit > 1<<16 {
			t.Skip()
		}
		got := text.Clip(given, limit)
		switch {
		case len(given) <= limit && got != given:
			t.Errorf("%q at %d became %q", given, limit, got)
		case len(got) > max(limit, len(text.Ellipsis)):
			t.Errorf("%q has %d bytes, more than %d", got, len(got), limit)
		case utf8.ValidString(given) && !utf8.ValidString(got):
			t.Errorf("%q is cut within a rune: %q", given, got)
		case !strings.HasPrefix(given, strings.TrimSuffix(got, text.Ellipsis)) && given != got:
			t.Errorf("%q is no beginning of %q", got, given)
		}
	})
}
