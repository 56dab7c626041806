package status

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// MaxStatus is how long a status may be, as JSON, to be reported whole. An API server stores objects of at most 1.5 MiB, to
	// which the record of who set which field adds, in the worst case, twice the length of the status; and in the WDS there is the
	// object's spec besides.
	MaxStatus = 400 << 10

	// ConditionTruncated is added to the conditions of a status that was shortened. Its status is always True.
	ConditionTruncated = "starling.io/Truncated"
	// ReasonStatusTooLarge is the reason of ConditionTruncated.
	ReasonStatusTooLarge = "StatusTooLarge"

	// wholeItem and wholeField are the sizes up to which items of lists and fields of objects stay as they are while their list or
	// object is shortened: a list loses whole items rather than a bit of each.
	wholeItem, wholeField = 2048, 32
	// maxCuts bounds how many places a Truncation names.
	maxCuts = 5
	// forCondition is how much is kept free for the condition.
	forCondition = 1024
	// epoch stands for the time of a transition that nobody knows.
	epoch = "1970-01-01T00:00:00Z"
)

// Truncation says how a status was shortened.
type Truncation struct {
	// Size is how many bytes of JSON the status has in the cluster, Limit how many it was allowed.
	Size, Limit int
	// Cuts are the places that were shortened, sorted by path; all items of a list count as one place.
	Cuts []Cut
}

// Cut is a place that was shortened.
type Cut struct {
	// Path leads there, as in .items[].message.
	Path string
	// Left of Of are still there, summed over all items of the lists on the path.
	Left, Of int
	// Unit is what is counted: bytes, items or fields.
	Unit string
}

// String says it for the annotation of a WorkStatus. It changes only when something new is to be told: sizes are rounded, and how
// much is left of each place is not told.
func (t Truncation) String() string {
	var paths []string
	for _, c := range t.Cuts {
		paths = append(paths, c.Path)
	}
	return fmt.Sprintf("the status has about %s, more than %s; shortened: %s", about(t.Size), about(t.Limit), strings.Join(cutList(paths), ", "))
}

// message says it for the condition, in numbers.
func (t Truncation) message() string {
	var cuts []string
	for _, c := range t.Cuts {
		cuts = append(cuts, fmt.Sprintf("%s (%d of %d %s left)", c.Path, c.Left, c.Of, c.Unit))
	}
	text := fmt.Sprintf("The status in the cluster has %d bytes, more than the %d that are reported. Shortened: %s.",
		t.Size, t.Limit, strings.Join(cutList(cuts), ", "))
	if most := forCondition - 256; encoded(text) > most {
		text, _ = cutText(text, most)
	}
	return text
}

func cutList(all []string) []string {
	if len(all) <= maxCuts {
		return all
	}
	return append(slices.Clone(all[:maxCuts]), fmt.Sprintf("… and %d more", len(all)-maxCuts))
}

// about rounds a number of bytes.
func about(size int) string {
	switch {
	case size >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(size)/(1<<20))
	case size >= 10<<10:
		return fmt.Sprintf("%d KiB", (size+1<<9)>>10)
	default:
		return fmt.Sprintf("%d bytes", size)
	}
}

// Truncate returns a status of at most limit bytes of JSON: the same if it is not longer, otherwise one in which the largest
// parts were shortened, and how. What is short stays; of a string its beginning is left, of a list its first items, of an object
// with very many fields those that come first. The same status is always shortened alike. A status with conditions gets one more,
// ConditionTruncated, if there is room for it.
//
// The status must be JSON as an API server's client decodes it. It is not changed; the result shares values with it. The cost
// grows with its size.
func Truncate(status map[string]any, limit int) (map[string]any, *Truncation) {
	whole := measure(status)
	if whole.size <= limit {
		return status, nil
	}
	room := limit
	if limit > 2*forCondition {
		room -= forCondition
	}
	s := shortener{cuts: map[string]*Cut{}}
	short, _ := s.shorten(whole, room, "")
	result, _ := short.value.(map[string]any)
	if result == nil {
		result = map[string]any{} // there is room for nothing
	}
	t := &Truncation{Size: whole.size, Limit: limit}
	for _, path := range slices.Sorted(maps.Keys(s.cuts)) {
		t.Cuts = append(t.Cuts, *s.cuts[path])
	}
	if noted, ok := withCondition(result, t.message()); ok && measure(noted).size <= limit {
		result = noted
	}
	return result, t
}

// withCondition returns the status with the condition; false if the status has no conditions.
func withCondition(status map[string]any, message string) (map[string]any, bool) {
	list, _ := status["conditions"].([]any)
	since, found := epoch, false
	var conditions []any
	for _, item := range list {
		c, ok := item.(map[string]any)
		if !ok {
			return nil, false
		}
		kind, ok := c["type"].(string)
		found = found || ok
		// When it was cut is not known, and must not make a difference: the time of the latest transition will do.
		if at, ok := c["lastTransitionTime"].(string); ok && at > since && isTime(at) {
			since = at
		}
		if kind != ConditionTruncated {
			conditions = append(conditions, item)
		}
	}
	if !found {
		return nil, false
	}
	noted := maps.Clone(status)
	noted["conditions"] = append(conditions, map[string]any{
		"type": ConditionTruncated, "status": "True", "reason": ReasonStatusTooLarge, "message": message, "lastTransitionTime": since,
	})
	return noted, true
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

// node is a value with the size of its JSON.
type node struct {
	value any
	size  int
	// children are the items of a list, or the fields of an object in the order of keys.
	children []node
	keys     []string
}

func measure(value any) node {
	n := node{value: value}
	switch v := value.(type) {
	case map[string]any:
		n.size = 2 + max(0, len(v)-1) // braces and commas
		n.keys = slices.Sorted(maps.Keys(v))
		n.children = make([]node, 0, len(v))
		for _, key := range n.keys {
			child := measure(v[key])
			n.size += encoded(key) + 1 + child.size
			n.children = append(n.children, child)
		}
	case []any:
		n.size = 2 + max(0, len(v)-1)
		n.children = make([]node, 0, len(v))
		for _, item := range v {
			child := measure(item)
			n.size += child.size
			n.children = append(n.children, child)
		}
	default:
		n.size = encoded(v)
	}
	return n
}

// encoded returns the size of a scalar as JSON.
func encoded(scalar any) int {
	text, err := json.Marshal(scalar)
	if err != nil {
		return len("null") // no value that was decoded from JSON fails
	}
	return len(text)
}

type shortener struct{ cuts map[string]*Cut }

// shorten returns what becomes of a value that must not have more than so many bytes; false if it cannot be made that short.
func (s *shortener) shorten(n node, room int, path string) (node, bool) {
	if n.size <= room {
		return n, true
	}
	switch value := n.value.(type) {
	case string:
		text, ok := cutText(value, room)
		if !ok {
			return node{}, false
		}
		s.note(path, len(text)-len(ellipsis), len(value), "bytes")
		return node{value: text, size: encoded(text)}, true
	case []any:
		return s.shortenList(n, room, path)
	case map[string]any:
		return s.shortenObject(n, room, path)
	}
	return node{}, false
}

func (s *shortener) shortenList(n node, room int, path string) (node, bool) {
	size := 2
	if size > room {
		return node{}, false
	}
	level := max(wholeItem, fairShare(n.children, room-2-len(n.children)))
	items := make([]any, 0, len(n.children))
	for i, child := range n.children {
		comma := min(i, 1)
		left := room - size - comma
		var item node
		ok := min(child.size, level) <= left || i == 0
		if ok {
			item, ok = s.shorten(child, min(level, left), join(path, "[]"))
		}
		if !ok {
			s.note(path, i, len(n.children), "items")
			break
		}
		size += comma + item.size
		items = append(items, item.value)
	}
	return node{value: items, size: size}, true
}

func (s *shortener) shortenObject(n node, room int, path string) (node, bool) {
	size := 2
	if size > room {
		return node{}, false
	}
	besides := 2
	for _, key := range n.keys {
		besides += encoded(key) + 2 // colon and comma
	}
	level := max(wholeField, fairShare(n.children, room-besides))
	fields := make(map[string]any, len(n.keys))
	for i, key := range n.keys {
		needs := encoded(key) + 1 + min(len(fields), 1)
		field, ok := s.shorten(n.children[i], min(level, room-size-needs), join(path, "."+shown(key)))
		if !ok {
			continue
		}
		size += needs + field.size
		fields[key] = field.value
	}
	if len(fields) < len(n.keys) {
		s.note(path, len(fields), len(n.keys), "fields")
	}
	return node{value: fields, size: size}, true
}

const ellipsis = "…"

// cutText returns the beginning of a text, with a sign that it is one, in at most so many bytes of JSON; false if there is no room
// for the sign.
func cutText(text string, room int) (string, bool) {
	room -= 2 + len(ellipsis)
	if room < 0 {
		return "", false
	}
	end := 0
	for end < len(text) {
		r, width := utf8.DecodeRuneInString(text[end:])
		size := width
		if r < ' ' || strings.ContainsRune("<>&\"\\\u2028\u2029\uFFFD", r) {
			size = 6 // escaped, or less
		}
		if room -= size; room < 0 {
			break
		}
		end += width
	}
	return text[:end] + ellipsis, true
}

// fairShare returns the size such that values which are cut to it, where they are larger, fill the room.
func fairShare(children []node, room int) int {
	sizes := make([]int, 0, len(children))
	for _, c := range children {
		sizes = append(sizes, c.size)
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		left := len(sizes) - i
		if size*left > room {
			return room / left
		}
		room -= size
	}
	return room
}

// join extends a path, as long as it is one that somebody would read.
func join(path, step string) string {
	const longest = 120
	if len(path)+len(step) > longest {
		return path
	}
	return path + step
}

// note adds to what is told of a place.
func (s *shortener) note(path string, left, of int, unit string) {
	if path == "" {
		path = "."
	}
	c := s.cuts[path]
	if c == nil {
		c = &Cut{Path: path, Unit: unit}
		s.cuts[path] = c
	}
	c.Left += left
	c.Of += of
}

// shown returns a key as part of a path.
func shown(key string) string {
	const longest = 40
	if len(key) > longest {
		end := longest
		for !utf8.RuneStart(key[end]) {
			end--
		}
		key = key[:end] + ellipsis
	}
	if strings.ContainsAny(key, ".[]\"\\ \n\r\t") {
		return fmt.Sprintf("%q", key)
	}
	return key
}
