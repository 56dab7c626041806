package plan

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/transform"
)

// Stage is how far a cluster is with fields that it is to leave alone, as a work records it.
//
// The manifest is applied by the usual field manager, without the fields in Left. A field can be
// left out without being removed from the cluster once another field manager owns it: one of the
// cluster, or one that only holds this field for us. The steps to that are manifests of the one
// work, each written after the cluster has reported the one before (stages.go).
//
// It is comparable; the zero Stage is that of objects of which nothing was ever ignored. Lists are
// sorted, with one path on each line.
type Stage struct {
	// Begun distinguishes a Stage of which all else is empty from the zero Stage.
	Begun bool
	// Left are the ignored fields that the manifest of the usual manager leaves out.
	Left string
	// Held are the fields that managers of their own hold, or may hold.
	Held string
	// By is the field whose own manager applies the manifest, which has only this field, or, if it
	// is Dropping, none. It is empty if the usual manager applies it.
	By       string
	Dropping bool
	// Again: the usual manager takes the fields that are not left out by force, because it had
	// others values of them than their own managers were to hold.
	Again bool
	// Values is a hash of the fields that are getting managers of their own, as the usual manager
	// has applied them.
	Values transform.Hash
	// Refused are ignored fields that the cluster treats as one value with others, so they cannot
	// be left alone.
	Refused string
	// UID is that of the object for which the fields in Left are held, empty if it was not known.
	UID string
	// Target is the hash of the content (transform.Object.Content) that the steps lead to, zero if
	// it is that of the manifest.
	Target transform.Hash
	// Former is the UID of the object in the WDS that the cluster has a copy of, as far as it has
	// reported: not the one of this content, but one that was deleted (recreate.go).
	Former types.UID
}

// stageText is how a Stage, and the Options that it belongs to, are written in a work.
type stageText struct {
	Ignored  []string `json:"ignored,omitempty"`
	Left     []string `json:"left,omitempty"`
	Held     []string `json:"held,omitempty"`
	Refused  []string `json:"refused,omitempty"`
	By       string   `json:"by,omitempty"`
	Dropping bool     `json:"dropping,omitempty"`
	Again    bool     `json:"again,omitempty"`
	NoForce  bool     `json:"noForce,omitempty"`
	UID      string   `json:"uid,omitempty"`
	Values   string   `json:"values,omitempty"`
	Target   string   `json:"target,omitempty"`
	Former   string   `json:"former,omitempty"`
}

// StageText returns the Stage of options as text, with what an object's strategy does not show of
// the other options. It is one line of JSON.
func (o Options) StageText() string {
	s := &o.Stage
	text := stageText{
		Ignored: lines(o.IgnoredFields), Left: lines(s.Left), Held: lines(s.Held), Refused: lines(s.Refused),
		By: s.By, Dropping: s.Dropping, Again: s.Again, NoForce: o.NoForce, UID: s.UID, Former: string(s.Former),
	}
	if s.Values != (transform.Hash{}) {
		text.Values = s.Values.String()
	}
	if s.Target != (transform.Hash{}) {
		text.Target = s.Target.String()
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return "" // strings and booleans can be encoded
	}
	return string(raw)
}

// ParseStage returns options as StageText wrote them. It reports whether the text is one.
func ParseStage(text string) (Options, bool) {
	var t stageText
	if json.Unmarshal([]byte(text), &t) != nil {
		return Options{}, false
	}
	target, _ := transform.ParseHash(t.Target)
	values, _ := transform.ParseHash(t.Values)
	return Options{
		NoForce: t.NoForce, IgnoredFields: paths(t.Ignored),
		Stage: Stage{
			Begun: true, Left: paths(t.Left), Held: paths(t.Held), Refused: paths(t.Refused),
			By: t.By, Dropping: t.Dropping, Again: t.Again, UID: t.UID, Values: values, Target: target, Former: types.UID(t.Former),
		},
	}, true
}

// Careful reports whether an apply must not take fields from others, because it has fields that the
// cluster is to leave alone.
func (o Options) Careful() bool {
	s := &o.Stage
	return s.Begun && (s.By != "" || !s.Again && s.Left != o.IgnoredFields)
}

// Unsettled reports whether further steps follow when the cluster has reported this one.
func (o Options) Unsettled() bool {
	s := &o.Stage
	steps := s.By != "" || o.IgnoredFields == "" && (s.Former == "" || s.Held != "") || s.Left != o.IgnoredFields && s.Refused == ""
	return s.Begun && (o.Observe || steps)
}

// Passed reports whether the cluster has refused a step in a way that the next one follows from: it
// would have taken a field from another manager.
func (i *Item) Passed() bool {
	others, ours := i.conflicts()
	return i.Careful() && (others || ours)
}

// conflicts reports whether a cluster refused to apply an object because other managers own fields
// with other values, and whether managers of ours are among these. API servers have no code for
// who it is: this is their text, and the names that we give.
func (i *Item) conflicts() (others, ours bool) {
	if i.State != Failed || i.Missing || denied(i.Message) || !strings.Contains(i.Message, "Apply failed with ") {
		return false, false
	}
	ours = strings.Contains(i.Message, `"`+FieldManager+`"`) || strings.Contains(i.Message, `"`+FieldManager+`.`)
	return !ours, ours
}

// FieldManager is the usual field manager of what is delivered.
const FieldManager = "work-agent"

// maxManager is the number of bytes that the name of a field manager can have.
const maxManager = 128

// Manager returns the field manager by which a cluster applies the manifest.
func (o Options) Manager() string {
	name := FieldManager + o.Stage.By
	if len(name) > maxManager {
		name = FieldManager + "." + transform.HashOf([]byte(o.Stage.By)).String()
	}
	return name
}

// lines returns the paths in a text that has one on each line.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// paths returns a text with one path on each line: sorted, each once.
func paths(list []string) string {
	list = slices.Clone(list)
	slices.Sort(list)
	return strings.Join(slices.Compact(list), "\n")
}
