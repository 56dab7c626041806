package resolve

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestResolve(t *testing.T) {
	tests := map[string]struct {
		world   world
		locked  []string
		problem Problem
		// want are the versions, dependencies first.
		want []string
		// wantReason and wantError are those of a conflict.
		wantReason string
		wantError  string
	}{
		"OneRoot": {
			world:   world{"a": {"v1.0.0": ""}},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"a v1.0.0 Install"},
		},
		"NewestOfANewDependency": {
			world:   world{"a": {"v1.0.0": "b >=v1.0.0"}, "b": {"v0.9.0": "", "v1.0.0": "", "v1.9.0": "", "v1.10.0": "", "v2.0.0-rc.1": ""}},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v1.10.0 Install", "a v1.0.0 Install"},
		},
		"EmptyConstraintIsAny": {
			world:   world{"a": {"v1.0.0": "b"}, "b": {"v1.0.0": "", "v2.0.0": ""}},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v2.0.0 Install", "a v1.0.0 Install"},
		},
		"PartialTagsAreNoCandidates": {
			world:   world{"a": {"v1.0.0": "b"}, "b": {"v1.0.0": "", "v2": "", "latest": "", "v1.5": ""}},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v1.0.0 Install", "a v1.0.0 Install"},
		},
		"EqualVersionsAreOrderedByTag": {
			world:   world{"a": {"v1.0.0": "b"}, "b": {"v1.0.0": "", "1.0.0": "", "v1.0.0+up.1": ""}},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v1.0.0+up.1 Install", "a v1.0.0 Install"},
		},
		"RootTagMayBeAnything": {
			world:   world{"a": {"main": "b"}, "b": {"v1.0.0": ""}},
			problem: Problem{Roots: roots("a main subject")},
			want:    []string{"b v1.0.0 Install", "a main Install"},
		},
		"RootByDigest": {
			world:   world{"a": {"v1.0.0": "b"}, "b": {"v1.0.0": ""}},
			problem: Problem{Roots: roots("a " + digestOf("a", "v1.0.0") + " subject")},
			want:    []string{"b v1.0.0 Install", "a " + digestOf("a", "v1.0.0")[:19] + " Install"},
		},
		"LockedVersionIsKept": {
			world:   world{"a": {"v1.0.0": "b >=v1"}, "b": {"v1.0.0": "", "v1.1.0": ""}},
			locked:  []string{"b v1.0.0"},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v1.0.0", "a v1.0.0 Install"},
		},
		"SmallestUpgrade": {
			world:   world{"a": {"v1.0.0": "b >=v1.1"}, "b": {"v1.0.0": "", "v1.1.0": "", "v1.2.0": ""}},
			locked:  []string{"b v1.0.0"},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v1.1.0 Upgrade", "a v1.0.0 Install"},
		},
		"NoDowngradeByDefault": {
			world:      world{"a": {"v1.0.0": "b <v2"}, "b": {"v1.0.0": "", "v1.1.0": "", "v2.0.0": ""}},
			locked:     []string{"b v2.0.0"},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "VersionConflict",
			wantError: "package b v2.0.0 does not fit: a requires <v2: a v1.0.0 (wanted) requires b <v2; b v2.0.0 (installed). " +
				"A lower version of b fits: allow downgrades, or change what requires it",
		},
		"LargestDowngrade": {
			world:   world{"a": {"v1.0.0": "b <v2"}, "b": {"v1.0.0": "", "v1.1.0": "", "v2.0.0": ""}},
			locked:  []string{"b v2.0.0"},
			problem: Problem{Roots: roots("a v1.0.0 subject"), AllowDowngrade: true},
			want:    []string{"b v1.1.0 Downgrade", "a v1.0.0 Install"},
		},
		"SubjectMayBeDowngraded": {
			world:   world{"a": {"v1.0.0": "", "v2.0.0": ""}},
			locked:  []string{"a v2.0.0"},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"a v1.0.0 Downgrade"},
		},
		"ConstraintsAreNotJoined": {
			world:   world{"a": {"v1.0.0": "b ^1 || ^2; c"}, "b": {"v1.5.0": "", "v2.0.0": ""}, "c": {"v1.0.0": "b >=2"}},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v2.0.0 Install", "c v1.0.0 Install", "a v1.0.0 Install"},
		},
		"Diamond": {
			world: world{
				"a": {"v1.0.0": "b; c"}, "b": {"v1.0.0": "d >=v1"}, "c": {"v1.0.0": "d <v2"},
				"d": {"v1.0.0": "", "v1.1.0": "", "v2.0.0": ""},
			},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"d v1.1.0 Install", "b v1.0.0 Install", "c v1.0.0 Install", "a v1.0.0 Install"},
		},
		"DependentsAreDecidedFirst": {
			// b comes before z by name, and is only then required by it.
			world: world{
				"a": {"v1.0.0": "b; z"}, "b": {"v1.0.0": "", "v2.0.0": ""},
				"z": {"v1.0.0": "b", "v2.0.0": "b <v2"},
			},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v1.0.0 Install", "z v2.0.0 Install", "a v1.0.0 Install"},
		},
		"DependentsOfDependentsAreDecidedFirst": {
			world: world{
				"a": {"v1.0.0": "b; x"}, "b": {"v1.0.0": "", "v2.0.0": ""}, "x": {"v1.0.0": "y"}, "y": {"v1.0.0": "z"},
				"z": {"v1.0.0": "b", "v2.0.0": "b <v2"},
			},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want: []string{
				"b v1.0.0 Install", "z v2.0.0 Install", "y v1.0.0 Install", "x v1.0.0 Install", "a v1.0.0 Install",
			},
		},
		"UpgradeOfASharedDependency": {
			world: world{
				"a": {"v1.0.0": "d >=v1", "v2.0.0": "d >=v1.2"}, "b": {"v1.0.0": "d <v2"},
				"d": {"v1.0.0": "", "v1.2.0": "", "v1.3.0": "", "v2.0.0": ""},
			},
			locked:  []string{"a v1.0.0", "b v1.0.0", "d v1.0.0"},
			problem: Problem{Roots: roots("a v2.0.0 subject", "b v1.0.0")},
			want:    []string{"d v1.2.0 Upgrade", "a v2.0.0 Upgrade", "b v1.0.0"},
		},
		"UpgradeOfASharedDependencyThatBreaksAnotherRoot": {
			world: world{
				"a": {"v1.0.0": "d >=v1", "v2.0.0": "d >=v2"}, "b": {"v1.0.0": "d <v2"},
				"d": {"v1.0.0": "", "v2.0.0": ""},
			},
			locked:     []string{"a v1.0.0", "b v1.0.0", "d v1.0.0"},
			problem:    Problem{Roots: roots("a v2.0.0 subject", "b v1.0.0")},
			wantReason: "VersionConflict",
			wantError: "no version of d fits all packages that require it: a v2.0.0 (wanted) requires d >=v2; " +
				"b v1.0.0 (installed) requires d <v2. Change the version of Provider/a or Provider/b",
		},
		"InstalledDependentIsUpgraded": {
			world: world{
				"a": {"v1.0.0": "d >=v2"}, "b": {"v1.0.0": "c"}, "c": {"v1.0.0": "d <v2", "v1.1.0": "d"},
				"d": {"v1.0.0": "", "v2.0.0": ""},
			},
			locked:  []string{"b v1.0.0", "c v1.0.0", "d v1.0.0"},
			problem: Problem{Roots: roots("a v1.0.0 subject", "b v1.0.0")},
			want:    []string{"d v2.0.0 Upgrade", "a v1.0.0 Install", "c v1.1.0 Upgrade", "b v1.0.0"},
		},
		"Backtracking": {
			world: world{
				"a": {"v1.0.0": "b; c"}, "b": {"v1.0.0": "", "v2.0.0": "d v2"}, "c": {"v1.0.0": "d v1"},
				"d": {"v1.0.0": "", "v2.0.0": ""},
			},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v1.0.0 Install", "d v1.0.0 Install", "c v1.0.0 Install", "a v1.0.0 Install"},
		},
		"ConstraintsOfDeselectedVersionsVanish": {
			world: world{
				"a": {"v1.0.0": "b; d v1"}, "b": {"v1.0.0": "e v1", "v2.0.0": "d v2; e v2"},
				"d": {"v1.0.0": "", "v2.0.0": ""}, "e": {"v1.0.0": "", "v2.0.0": ""},
			},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"d v1.0.0 Install", "e v1.0.0 Install", "b v1.0.0 Install", "a v1.0.0 Install"},
		},
		"Missing": {
			world: world{
				"provider-aws-s3":     {"v1.0.0": "provider-family-aws >=v1.1.0"},
				"provider-family-aws": {"v1.0.9": ""},
			},
			problem:    Problem{Roots: roots("provider-aws-s3 v1.0.0 subject")},
			wantReason: "MissingDependency",
			wantError: "Package provider-aws-s3 requires provider-family-aws >=v1.1.0, but no compatible version found. " +
				"The highest version in reg.example.org/packages/provider-family-aws is v1.0.9",
		},
		"MissingBelow": {
			world: world{
				"a": {"v1.0.0": "b"}, "b": {"v1.0.0": "c v3"}, "c": {"v1.0.0": ""},
			},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "MissingDependency",
			wantError: "Package b requires c v3, but no compatible version found: a v1.0.0 (wanted) requires b; " +
				"b v1.0.0 requires c v3. The highest version in reg.example.org/packages/c is v1.0.0",
		},
		"AllMissing": {
			world:      world{"a": {"v1.0.0": "b; c >=v2; d"}, "c": {"v1.0.0": ""}, "d": {"v1.0.0": ""}},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "MissingDependency",
			wantError: "Package a requires b *, but no compatible version found; Package a requires c >=v2, " +
				"but no compatible version found: a v1.0.0 (wanted) requires b; a v1.0.0 (wanted) requires c >=v2",
		},
		"MissingTagOfTheSubject": {
			world:      world{"a": {"v1.0.0": ""}},
			problem:    Problem{Roots: roots("a v9.0.0 subject")},
			wantReason: "MissingDependency",
			wantError:  "package a v9.0.0 was not found in its repository",
		},
		"DisjointRanges": {
			world: world{
				"a": {"v1.0.0": "b; c"}, "b": {"v1.0.0": "d v1"}, "c": {"v1.0.0": "d v2"},
				"d": {"v1.0.0": "", "v2.0.0": ""},
			},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "VersionConflict",
			wantError: "no version of d fits all packages that require it: a v1.0.0 (wanted) requires b; b v1.0.0 requires d v1; " +
				"a v1.0.0 (wanted) requires c; c v1.0.0 requires d v2. Change the version of Provider/a",
		},
		"UserManagedDependencyStays": {
			world:      world{"a": {"v1.0.0": "x >=v1.1.0"}, "x": {"v1.0.0": "", "v1.1.0": ""}},
			locked:     []string{"x v1.0.0"},
			problem:    Problem{Roots: roots("a v1.0.0 subject", "x v1.0.0")},
			wantReason: "VersionConflict",
			wantError: "package x v1.0.0 does not fit: a requires >=v1.1.0: a v1.0.0 (wanted) requires x >=v1.1.0; " +
				"x v1.0.0 (installed). Set Provider/x to >=v1.1.0",
		},
		"UserManagedWithoutVersionStays": {
			world:      world{"a": {"v1.0.0": "x >=v1.1.0"}, "x": {"v1.0.0": "", "v1.1.0": ""}},
			locked:     []string{"x v1.0.0"},
			problem:    Problem{Roots: roots("a v1.0.0 subject", "x")},
			wantReason: "VersionConflict",
			wantError: "package x v1.0.0 does not fit: a requires >=v1.1.0: a v1.0.0 (wanted) requires x >=v1.1.0; " +
				"x v1.0.0 (installed). Set Provider/x to >=v1.1.0",
		},
		"PendingRootIsTakenAtItsVersion": {
			world:   world{"a": {"v1.0.0": "x"}, "x": {"v1.0.0": "", "v1.1.0": ""}},
			problem: Problem{Roots: roots("a v1.0.0 subject", "x v1.0.0 pending")},
			want:    []string{"x v1.0.0 Install", "a v1.0.0 Install"},
		},
		"SkipDependencyResolution": {
			world:   world{"a": {"v1.0.0": "b v9; c not-a-range"}},
			problem: Problem{Roots: roots("a v1.0.0 subject skip")},
			want:    []string{"a v1.0.0 Install"},
		},
		"SkippedConstraintsDoNotCount": {
			world: world{
				"a": {"v1.0.0": "d v2"}, "b": {"v1.0.0": "d v1"}, "d": {"v1.0.0": "", "v2.0.0": ""},
			},
			locked:  []string{"b v1.0.0", "d v1.0.0"},
			problem: Problem{Roots: roots("a v1.0.0 subject", "b v1.0.0 skip")},
			want:    []string{"d v2.0.0 Upgrade", "a v1.0.0 Install", "b v1.0.0"},
		},
		"Cycle": {
			world:      world{"a": {"v1.0.0": "b"}, "b": {"v1.0.0": "c"}, "c": {"v1.0.0": "a"}},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "CircularDependency",
			wantError: "circular dependency: a -> b -> c -> a: c v1.0.0 requires a; a v1.0.0 (wanted) requires b; " +
				"b v1.0.0 requires c",
		},
		"SelfCycle": {
			world:      world{"a": {"v1.0.0": "a"}},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "CircularDependency",
			wantError:  "circular dependency: a -> a: a v1.0.0 (wanted) requires a",
		},
		"CycleIsAvoidedByAnOlderVersion": {
			world:   world{"a": {"v1.0.0": "b"}, "b": {"v1.0.0": "", "v2.0.0": "a"}},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v1.0.0 Install", "a v1.0.0 Install"},
		},
		"CycleOfInstalledPackagesDoesNotCount": {
			world:   world{"a": {"v1.0.0": ""}, "x": {"v1.0.0": "y"}, "y": {"v1.0.0": "x"}},
			locked:  []string{"x v1.0.0", "y v1.0.0"},
			problem: Problem{Roots: roots("a v1.0.0 subject", "x v1.0.0")},
			want:    []string{"a v1.0.0 Install", "x v1.0.0", "y v1.0.0"},
		},
		"InvalidConstraint": {
			world:      world{"a": {"v1.0.0": "b not-a-range"}, "b": {"v1.0.0": ""}},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "InvalidPackage",
			wantError: `package a v1.0.0 has an invalid dependency "reg.example.org/packages/b": ` +
				`parse constraint "not-a-range": neither a range of versions nor a digest`,
		},
		"InvalidReference": {
			world:      world{"a": {"v1.0.0": "reg.example.org/b:v1 *"}},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "InvalidPackage",
			wantError: `package a v1.0.0 has an invalid dependency "reg.example.org/b:v1": ` +
				`its package must be a repository without tag and digest`,
		},
		"InvalidCandidateIsExcluded": {
			world:   world{"a": {"v1.0.0": "b"}, "b": {"v1.0.0": "", "v1.1.0": "c not-a-range", "v1.2.0": "broken"}},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v1.0.0 Install", "a v1.0.0 Install"},
		},
		"InvalidPackage": {
			world:      world{"a": {"v1.0.0": "b"}, "b": {"v1.0.0": "broken"}},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "InvalidPackage",
			wantError:  "package b v1.0.0 is not valid: no package.yaml: a v1.0.0 (wanted) requires b",
		},
		"BrokenLockDoesNotMatter": {
			world:   world{"a": {"v1.0.0": "d"}, "x": {"v1.0.0": "gone; d v2"}, "d": {"v1.0.0": "e not-a-range"}},
			locked:  []string{"x v1.0.0", "d v1.0.0"},
			problem: Problem{Roots: roots("a v1.0.0 subject", "x v1.0.0")},
			want:    []string{"d v1.0.0", "a v1.0.0 Install", "x v1.0.0"},
		},
		"BrokenLockIsNotMadeWorse": {
			world: world{
				"a": {"v1.0.0": "d >=v1.1"}, "x": {"v1.0.0": "d v2"}, "d": {"v1.0.0": "", "v1.1.0": "", "v2.0.0": ""},
			},
			locked:  []string{"x v1.0.0", "d v1.0.0"},
			problem: Problem{Roots: roots("a v1.0.0 subject", "x v1.0.0")},
			want:    []string{"d v2.0.0 Upgrade", "a v1.0.0 Install", "x v1.0.0"},
		},
		"SubjectOfTheInstalledVersionIsRepaired": {
			world:   world{"a": {"v1.0.0": "d >=v1.1"}, "d": {"v1.0.0": "", "v1.1.0": ""}},
			locked:  []string{"a v1.0.0", "d v1.0.0"},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"d v1.1.0 Upgrade", "a v1.0.0"},
		},
		"Digest": {
			world:   world{"a": {"v1.0.0": "b #v1.0.0"}, "b": {"v1.0.0": "c", "v2.0.0": ""}, "c": {"v1.0.0": ""}},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"c v1.0.0 Install", "b " + digestOf("b", "v1.0.0")[:19] + " Install", "a v1.0.0 Install"},
		},
		"DigestOfTheInstalledVersion": {
			world:   world{"a": {"v1.0.0": "b #v1.0.0"}, "b": {"v1.0.0": "", "v2.0.0": ""}},
			locked:  []string{"b v1.0.0"},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v1.0.0", "a v1.0.0 Install"},
		},
		"DigestAndRange": {
			world: world{
				"a": {"v1.0.0": "b #v1.0.0; c"}, "c": {"v1.0.0": "b >=v1.0.0"},
				"b": {"v0.9.0": "", "v1.0.0": "", "v1.1.0": ""},
			},
			problem: Problem{Roots: roots("a v1.0.0 subject")},
			want:    []string{"b v1.0.0 Install", "c v1.0.0 Install", "a v1.0.0 Install"},
		},
		"DigestOutOfRange": {
			world: world{
				"a": {"v1.0.0": "b #v0.9.0; c"}, "c": {"v1.0.0": "b >=v1.0.0"},
				"b": {"v0.9.0": "", "v1.0.0": "", "v1.1.0": ""},
			},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "VersionConflict",
			wantError: "no version of b fits all packages that require it: a v1.0.0 (wanted) requires b " + digestOf("b", "v0.9.0") +
				"; a v1.0.0 (wanted) requires c; c v1.0.0 requires b >=v1.0.0. Change the version of Provider/a",
		},
		"TwoDigests": {
			world:      world{"a": {"v1.0.0": "b #v1.0.0; c"}, "c": {"v1.0.0": "b #v2.0.0"}, "b": {"v1.0.0": "", "v2.0.0": ""}},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "VersionConflict",
			wantError: "no version of b fits all packages that require it: a v1.0.0 (wanted) requires b " + digestOf("b", "v1.0.0") +
				"; a v1.0.0 (wanted) requires c; c v1.0.0 requires b " + digestOf("b", "v2.0.0") + ". Change the version of Provider/a",
		},
		"DigestNotFound": {
			world:      world{"a": {"v1.0.0": "b #v9.0.0"}, "b": {"v1.0.0": ""}},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "MissingDependency",
			wantError:  "Package a requires b " + digestOf("b", "v9.0.0") + ", but no compatible version found",
		},
		"InstalledByDigestHasNoVersion": {
			world: world{"a": {"v1.0.0": "b >=v1"}, "b": {"v1.0.0": ""}},
			problem: Problem{
				Roots:  roots("a v1.0.0 subject", "b "+digestOf("b", "v1.0.0")),
				Locked: []Package{{Name: "b-1", Source: repo("b"), Version: Version{Digest: digestOf("b", "v1.0.0")}}},
			},
			wantReason: "VersionConflict",
			wantError: "package b " + digestOf("b", "v1.0.0")[:19] + " does not fit: a requires >=v1: a v1.0.0 (wanted) requires b >=v1; b " +
				digestOf("b", "v1.0.0")[:19] + " (installed). Set Provider/b to >=v1",
		},
		"CrossplaneVersion": {
			world:      world{"a": {"v1.0.0": "crossplane >=v2"}},
			problem:    Problem{Roots: roots("a v1.0.0 subject"), HubVersion: "v1.20.0"},
			wantReason: "VersionConflict",
			wantError:  "package a v1.0.0 requires Crossplane >=v2, but the hub has the version v1.20.0",
		},
		"CrossplaneVersionIgnored": {
			world:   world{"a": {"v1.0.0": "crossplane >=v2"}},
			problem: Problem{Roots: roots("a v1.0.0 subject ignore"), HubVersion: "v1.20.0"},
			want:    []string{"a v1.0.0 Install"},
		},
		"CrossplaneVersionOfADependency": {
			world:   world{"a": {"v1.0.0": "b"}, "b": {"v1.0.0": "crossplane >=v1", "v2.0.0": "crossplane >=v2"}},
			problem: Problem{Roots: roots("a v1.0.0 subject"), HubVersion: "v1.20.0"},
			want:    []string{"b v1.0.0 Install", "a v1.0.0 Install"},
		},
		"RemovedPackageIsRequired": {
			world:      world{"a": {"v1.0.0": ""}, "old": {"v1.0.0": ""}, "x": {"v1.0.0": "old"}},
			locked:     []string{"old v1.0.0", "x v1.0.0"},
			problem:    Problem{Roots: roots("a v1.0.0 subject", "x v1.0.0"), Remove: []string{repo("old")}},
			wantReason: "VersionConflict",
			wantError:  "package x requires old, which is being removed: x v1.0.0 (installed) requires old",
		},
		"RemovedPackage": {
			world:   world{"new": {"v1.0.0": "family"}, "family": {"v1.0.0": ""}, "old": {"v1.0.0": ""}},
			locked:  []string{"old v1.0.0"},
			problem: Problem{Roots: roots("new v1.0.0 subject"), Remove: []string{repo("old")}},
			want:    []string{"family v1.0.0 Install", "new v1.0.0 Install"},
		},
		"TwoObjectsOfOneSource": {
			world: world{"a": {"v1.0.0": ""}},
			problem: Problem{Roots: append(roots("a v1.0.0 subject"),
				Root{Name: "other", Kind: "Provider", Source: repo("a"), Version: Version{Tag: "v1.0.0"}})},
			wantReason: "VersionConflict",
			wantError:  "Provider/a and Provider/other both install reg.example.org/packages/a. Delete one of them",
		},
		"InstalledDependencyNobodyRequires": {
			world: world{
				"a": {"v1.0.0": "t v2"}, "d": {"v1.0.0": "t v1"}, "t": {"v1.0.0": "", "v2.0.0": ""},
			},
			locked:     []string{"d v1.0.0", "t v1.0.0"},
			problem:    Problem{Roots: roots("a v1.0.0 subject")},
			wantReason: "VersionConflict",
			wantError: "no version of t fits all packages that require it: a v1.0.0 (wanted) requires t v2; " +
				"d v1.0.0 (installed) requires t v1. No package requires d any more: delete it, if it is not used",
		},
		"SubjectBreaksAnInstalledPackage": {
			world:      world{"a": {"v1.0.0": "", "v2.0.0": ""}, "b": {"v1.0.0": "a v1"}},
			locked:     []string{"a v1.0.0", "b v1.0.0"},
			problem:    Problem{Roots: roots("a v2.0.0 subject", "b v1.0.0")},
			wantReason: "VersionConflict",
			wantError: "package a v2.0.0 does not fit: b requires v1: b v1.0.0 (installed) requires a v1; " +
				"a v2.0.0 (wanted). Set Provider/a to v1",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.locked != nil {
				tt.problem.Locked = tt.world.locked(tt.locked...)
			}
			got := resolveAll(t, tt.world, tt.problem)
			if diff := cmp.Diff(tt.want, got.versions(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("versions (-want +got):\n%s%v", diff, got.err)
			}
			if diff := cmp.Diff(tt.wantReason, got.reason()); diff != "" {
				t.Errorf("reason (-want +got):\n%s%v", diff, got.err)
			}
			text := ""
			if got.err != nil {
				text = got.err.Error()
			}
			if diff := cmp.Diff(tt.wantError, text); diff != "" {
				t.Errorf("error (-want +got):\n%s\n%s", diff, strings.ReplaceAll(text, "; ", "\n"))
			}
			conflict, ok := errors.AsType[*Conflict](got.err)
			if !ok {
				return
			}
			type parts struct {
				Message, Hint string
				Steps         []string
			}
			want, in := parts{Message: conflict.Message, Hint: conflict.Hint}, parts{}
			if steps := conflict.steps(); steps != "" {
				want.Steps = strings.Split(steps, "; ")
			}
			in.Message, in.Steps, in.Hint = Parts(text)
			if diff := cmp.Diff(want, in); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}
