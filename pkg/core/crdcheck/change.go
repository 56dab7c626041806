package crdcheck

import (
	"fmt"

	"github.com/starlinghq/starling/pkg/core/text"
)

// A Kind is what a Change changes.
type Kind string

// Changes of the CRD itself.
const (
	ScopeChanged            Kind = "ScopeChanged"
	KindChanged             Kind = "KindChanged"  // kind or listKind
	NamesChanged            Kind = "NamesChanged" // other names, and categories
	ConversionChanged       Kind = "ConversionChanged"
	VersionAdded            Kind = "VersionAdded"
	VersionRemoved          Kind = "VersionRemoved"       // not stored
	StoredVersionRemoved    Kind = "StoredVersionRemoved" // the API server refuses it
	ServedVersionRemoved    Kind = "ServedVersionRemoved" // still defined, not served any more
	StorageVersionChanged   Kind = "StorageVersionChanged"
	SubresourceChanged      Kind = "SubresourceChanged"
	SelectableFieldsChanged Kind = "SelectableFieldsChanged"
)

// Changes of a schema.
const (
	FieldAdded                     Kind = "FieldAdded"
	FieldRemoved                   Kind = "FieldRemoved"
	NewRequiredField               Kind = "NewRequiredField" // a field that is new, and required at once
	RequiredAdded                  Kind = "RequiredAdded"    // a field that was optional
	TypeChanged                    Kind = "TypeChanged"
	FormatChanged                  Kind = "FormatChanged"
	EnumRestricted                 Kind = "EnumRestricted"
	BoundTightened                 Kind = "BoundTightened"
	PatternChanged                 Kind = "PatternChanged"
	DefaultChanged                 Kind = "DefaultChanged" // of a field that existed
	NullableRemoved                Kind = "NullableRemoved"
	AdditionalPropertiesRestricted Kind = "AdditionalPropertiesRestricted"
	PreserveUnknownRemoved         Kind = "PreserveUnknownRemoved" // of a schema or of the CRD
	EmbeddedResourceChanged        Kind = "EmbeddedResourceChanged"
	ListTypeChanged                Kind = "ListTypeChanged"
	MapTypeChanged                 Kind = "MapTypeChanged"
	CELRuleAdded                   Kind = "CELRuleAdded"
	LogicChanged                   Kind = "LogicChanged" // allOf, anyOf, oneOf or not
	OtherChanged                   Kind = "OtherChanged" // keywords that a CRD of today cannot have
	Loosened                       Kind = "Loosened"     // a constraint that is weaker or gone
)

// A Change is one difference between an old CRD and a new one.
type Change struct {
	CRD     string
	Version string // of the new schema; "" for the CRD itself
	Stored  string // set if the schema is compared with that of another version, which is stored
	Path    string // "spec.items[*].size"; "" is the root of the schema
	Kind    Kind
	Facet   string // the keyword, such as "maxLength"
	Old     string // the old value, for people; "" if there was none
	New     string
	// Breaking reports whether an object that was valid can become invalid, lose a field, or not be
	// readable by its clients. It is conservative: only the objects decide.
	Breaking bool
}

// identity is what two comparisons of different versions find alike.
func (c *Change) identity() [3]string { return [3]string{c.Path, string(c.Kind), c.Facet} }

// Describe returns what changes, without the CRD and the version: "spec.size is required now".
func (c *Change) Describe() string {
	description := c.describe()
	if c.Stored != "" {
		return description + fmt.Sprintf(" (compared with the stored version %s)", c.Stored)
	}
	return description
}

func (c *Change) describe() string {
	at := place(c.Path)
	switch c.Kind {
	case FieldAdded:
		return at + " is new"
	case FieldRemoved:
		return at + " is removed"
	case NewRequiredField:
		return at + " is new and required"
	case RequiredAdded:
		return at + " is required now"
	case NullableRemoved:
		return at + " can no longer be null"
	case EnumRestricted:
		if c.Old == "" {
			return at + " allows only " + c.New + " now"
		}
		return at + " no longer allows " + c.Old
	case AdditionalPropertiesRestricted:
		if c.New != "" && c.New != "false" {
			return at + " accepts only " + c.New + " values now"
		}
		return at + " no longer accepts arbitrary keys"
	case PreserveUnknownRemoved:
		return at + " no longer keeps unknown fields"
	case CELRuleAdded:
		return at + " has a new rule: " + c.New
	case LogicChanged, OtherChanged:
		return at + ": " + c.Facet + " is changed"
	case VersionAdded:
		return "is new"
	case VersionRemoved:
		return "is removed"
	case StoredVersionRemoved:
		return "is removed, but objects are stored in it"
	case ServedVersionRemoved:
		return "is not served any more"
	default:
		return at + ": " + c.Facet + " is " + or(c.New, "removed") + " now, " + or(c.Old, "unset") + " before"
	}
}

func place(at string) string { return or(at, "the object") }

// or returns a value that fits into a message.
func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return text.Clip(text.OneLine(value), valueLimit)
}

const valueLimit = 120 // bytes of one value in a message
