// Package text builds the lists and counts in messages for users. Every message that lists objects,
// truncates the text of somebody else, or counts something uses it, so that all of them look the
// same. It is pure.
package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Ellipsis ends a truncated text.
const Ellipsis = "…"

// More returns "… and 7 more". It returns "" if n is not positive.
func More(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("… and %d more", n)
}

// List joins the first limit items with ", " and appends how many are left out: "a, b … and 7
// more".
func List(items []string, limit int) string { return Join(items, ", ", limit) }

// Join is List with another separator.
func Join(items []string, separator string, limit int) string {
	if len(items) <= limit {
		return strings.Join(items, separator)
	}
	return some(items[:limit], separator, len(items)-limit)
}

// Some joins all items with ", " and appends how many more there are: "a, b … and 7 more".
func Some(items []string, more int) string { return some(items, ", ", more) }

func some(items []string, separator string, more int) string {
	joined := strings.Join(items, separator)
	if more <= 0 {
		return joined
	}
	return strings.TrimSpace(joined + " " + More(more))
}

// Bound returns the first limit items, followed by one item that counts the rest if there are more.
// It never changes items: the result may share its array, but not its capacity.
func Bound(items []string, limit int) []string {
	if len(items) <= limit {
		return items
	}
	return append(slices.Clip(items[:limit]), More(len(items)-limit))
}

// Clip returns text truncated to at most limit bytes, which includes the ellipsis. It never splits
// a rune. The limit must not be smaller than the ellipsis, three bytes.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len(Ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + Ellipsis
}

// OneLine returns text with every run of white space replaced by one space.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Count returns a number with its noun: "1 object", "3 objects". A noun whose plural is not formed
// by "s" is given as "policy|policies".
func Count[N ~int | ~int32 | ~int64](n N, noun string) string {
	singular, plural, irregular := strings.Cut(noun, "|")
	if !irregular {
		plural = singular + "s"
	}
	if n == 1 {
		return "1 " + singular
	}
	return fmt.Sprintf("%d %s", n, plural)
}

// Plural returns singular if n is 1, plural otherwise: Plural(n, "is", "are").
func Plural[N ~int | ~int32 | ~int64](n N, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}
