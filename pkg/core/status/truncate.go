package status

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/starlinghq/starling/pkg/core/text"
)

const (
	// MaxStatus is the maximum size of a status that is reported whole, in bytes of JSON. An API
	// server stores objects of at most 1.5 MiB. managedFields may add twice the size of the status,
	// and the object in the WDS has a spec as well.
	MaxStatus = 400 << 10

	// ConditionTruncated is added to the conditions of a status that was truncated. Its status is
	// always True.
	ConditionTruncated = "starling.io/Truncated"
	// ReasonStatusTooLarge is the reason of ConditionTruncated.
	ReasonStatusTooLarge = "StatusTooLarge"

	// wholeItem and wholeField are sizes in bytes. When a list or an object is truncated, items and
	// fields up to these sizes are not: a list loses whole items rather than a part of each item.
	wholeItem, wholeField = 2048, 32
	// maxCuts limits the fields that a Truncation names.
	maxCuts = 5
	// forCondition is the number of bytes that are reserved for the condition.
	forCondition = 1024
	// epoch is the transition time of a condition if no time is known.
	epoch = "1970-01-01T00:00:00Z"
)

// Truncation describes how a status was truncated.
type Truncation struct {
	// Size is the size of the status in the cluster, and Limit the allowed size, in bytes of JSON.
	Size, Limit int
	// Cuts are the fields that were truncated, sorted by path. All items of a list count as one
	// field.
	Cuts []Cut
}

// Cut is a field that was truncated.
type Cut struct {
	// Path is the path of the field, such as .items[].message.
	Path string
	// Left of Of remain, summed over all items of the lists on the path.
	Left, Of int
	// Unit is what is counted: bytes, items or fields.
	Unit string
}

// String returns the value of the annotation of a WorkStatus. Sizes are rounded, and what remains
// of each field is omitted, so that the annotation rarely changes.
func (t Truncation) String() string {
	var paths []string
	for _, c := range t.Cuts {
		paths = append(paths, c.Path)
	}
	return fmt.Sprintf("the status has about %s, more than %s; shortened: %s", about(t.Size), about(t.Limit), text.List(paths, maxCuts))
}

// message returns the message of the condition, with exact numbers.
func (t Truncation) message() string {
	var cuts []string
	for _, c := range t.Cuts {
		cuts = append(cuts, fmt.Sprintf("%s (%d of %d %s left)", c.Path, c.Left, c.Of, c.Unit))
	}
	message := fmt.Sprintf("the status in the cluster has %d bytes, more than the limit of %d; shortened: %s",
		t.Size, t.Limit, text.List(cuts, maxCuts))
	if most := forCondition - 256; encoded(message) > most {
		message, _ = cutText(message, most)
	}
	return message
}

// about returns a rounded number of bytes.
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

// Truncate returns a status of at most limit bytes of JSON. A status within the limit is returned
// unchanged, with nil. Otherwise the largest parts are truncated, and the Truncation describes how:
// strings keep their beginning, lists their first items, and objects with very many fields the
// first ones. Short parts are not truncated. The same status always has the same result. A status
// with conditions gets the condition ConditionTruncated if there is room for it.
//
// The status must be JSON as an API server's client decodes it. It is not changed; the result
// shares values with it. The cost is proportional to its size.
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
		result = map[string]any{} // the limit is smaller than any content
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
		// The time of the truncation is unknown, and must not change the result. The latest
		// transition of the other conditions is used instead.
		since = later(since, c["lastTransitionTime"])
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

// node is a value with the size of its JSON.
type node struct {
	value any
	size  int
	// children are the items of a list, or the values of an object in the order of keys.
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
	encoded, err := json.Marshal(scalar)
	if err != nil {
		return len("null") // no value that was decoded from JSON fails
	}
	return len(encoded)
}

type shortener struct{ cuts map[string]*Cut }

// shorten returns a value truncated to at most room bytes; false if that is impossible.
func (s *shortener) shorten(n node, room int, path string) (node, bool) {
	if n.size <= room {
		return n, true
	}
	switch value := n.value.(type) {
	case string:
		short, ok := cutText(value, room)
		if !ok {
			return node{}, false
		}
		s.record(path, len(short)-len(text.Ellipsis), len(value), "bytes")
		return node{value: short, size: encoded(short)}, true
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
			s.record(path, i, len(n.children), "items")
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
	overhead := 2
	for _, key := range n.keys {
		overhead += encoded(key) + 2 // colon and comma
	}
	level := max(wholeField, fairShare(n.children, room-overhead))
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
		s.record(path, len(fields), len(n.keys), "fields")
	}
	return node{value: fields, size: size}, true
}

// cutText returns the beginning of a value and an ellipsis, in at most room bytes of JSON; false if
// there is no room for the ellipsis.
func cutText(value string, room int) (string, bool) {
	room -= 2 + len(text.Ellipsis)
	if room < 0 {
		return "", false
	}
	end := 0
	for end < len(value) {
		r, width := utf8.DecodeRuneInString(value[end:])
		size := width
		if r < ' ' || strings.ContainsRune("<>&\"\\\u2028\u2029\uFFFD", r) {
			size = 6 // the longest escape
		}
		if room -= size; room < 0 {
			break
		}
		end += width
	}
	return value[:end] + text.Ellipsis, true
}

// fairShare returns the size to which larger values must be truncated so that all values fill the
// room.
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

// join extends a path, unless it becomes too long to be readable.
func join(path, step string) string {
	const longest = 120
	if len(path)+len(step) > longest {
		return path
	}
	return path + step
}

// record adds to the Cut of a field.
func (s *shortener) record(path string, left, of int, unit string) {
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
	key = text.Clip(key, 40+len(text.Ellipsis))
	if strings.ContainsAny(key, ".[]\"\\ \n\r\t") {
		return fmt.Sprintf("%q", key)
	}
	return key
}
