// Package crdcheck decides whether CustomResourceDefinitions can be installed or updated without
// harm: nobody else controls them, the API server accepts them, and no existing object becomes
// invalid or loses a field. It is pure.
//
// Check does everything for one transaction. The parts, each usable alone:
//
//   - Hash reports whether two CRDs are the same. Only those that differ need the rest.
//   - Conflicts checks owners and names. It needs the metadata of existing CRDs only.
//   - Compare lists what changes from an old CRD to a new one. A change is Breaking if an object
//     that was valid may become invalid or may lose a field.
//   - Transition holds what one CRD changes: the Changes, and what the API server would refuse. It
//     reports which versions of which objects must be read, if any. Its Checker takes these
//     objects one by one.
//   - Equivalent compares the CRDs of one package with those of the package that replaces it.
//
// What is an error:
//
//   - A conflict of owners or names.
//   - What the API server would refuse, such as the removal of a stored version. It cannot be
//     accepted: the write would fail.
//   - A breaking change that an existing object violates, unless the user accepts breaking changes
//     of this CRD. A breaking change that no object violates is a warning.
//
// An object is read as the API server reads it: unknown fields are pruned, defaults are set, then
// the schema and the CEL rules are evaluated. What an object already violates under the old schema
// is not blamed on the new one.
//
// A Transition needs no cluster: the old CRD can be what a destination reports, with the stored
// versions of its status, and the objects those that are bound to it.
package crdcheck
