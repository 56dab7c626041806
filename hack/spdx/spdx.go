// Package spdx lists the modules that a program is built from.
package spdx

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// Release is what programs are built for.
type Release struct {
	Version string
	// Created is the time of the commit.
	Created time.Time
}

// The types below are the part of SPDX 2.3 that is needed to list the modules of a program.
// https://spdx.github.io/spdx-spec/v2.3

// Document lists the modules of one program, which is its first package.
type Document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      CreationInfo   `json:"creationInfo"`
	DocumentDescribes []string       `json:"documentDescribes"`
	Packages          []Package      `json:"packages"`
	Relationships     []Relationship `json:"relationships"`
}

// CreationInfo is who wrote a document, and when.
type CreationInfo struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// Package is a program or a module.
type Package struct {
	SPDXID           string        `json:"SPDXID"`
	Name             string        `json:"name"`
	VersionInfo      string        `json:"versionInfo,omitempty"`
	DownloadLocation string        `json:"downloadLocation"`
	FilesAnalyzed    bool          `json:"filesAnalyzed"`
	LicenseConcluded string        `json:"licenseConcluded"`
	LicenseDeclared  string        `json:"licenseDeclared"`
	CopyrightText    string        `json:"copyrightText"`
	Checksums        []Checksum    `json:"checksums,omitempty"`
	ExternalRefs     []ExternalRef `json:"externalRefs,omitempty"`
}

// Checksum is the digest of a program.
type Checksum struct {
	Algorithm     string `json:"algorithm"`
	ChecksumValue string `json:"checksumValue"`
}

// ExternalRef is the URL of a module.
type ExternalRef struct {
	ReferenceCategory string `json:"referenceCategory"`
	ReferenceType     string `json:"referenceType"`
	ReferenceLocator  string `json:"referenceLocator"`
}

// Relationship is between a program and a module.
type Relationship struct {
	SPDXElementID      string `json:"spdxElementId"`
	RelationshipType   string `json:"relationshipType"`
	RelatedSPDXElement string `json:"relatedSpdxElement"`
}

const (
	unknown   = "NOASSERTION"
	programID = "SPDXRef-program"
)

// Of returns an SPDX document in JSON with the modules that a program is built from, as the program
// itself records them.
func Of(program string, r Release) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read what it is built from: %w", err)
	}
	digest, err := digestOf(program)
	if err != nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(documentOf(filepath.Base(program), digest, info, r), "", "  ")
	return append(raw, '\n'), err
}

func documentOf(program, digest string, info *debug.BuildInfo, r Release) Document {
	d := Document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: program + " " + r.Version,
		DocumentNamespace: "https://starling.io/spdx/" + program + "/" + digest,
		CreationInfo:      CreationInfo{Created: r.Created.Format(time.RFC3339), Creators: []string{"Tool: starling/hack/spdx"}},
		DocumentDescribes: []string{programID},
		Packages: []Package{{
			SPDXID: programID, Name: program, VersionInfo: r.Version, DownloadLocation: unknown, LicenseConcluded: unknown,
			LicenseDeclared: "Apache-2.0", CopyrightText: unknown, Checksums: []Checksum{{"SHA256", digest}},
		}},
		Relationships: []Relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", programID}},
	}
	add := func(id, name, version string) {
		d.Packages = append(d.Packages, Package{
			SPDXID: id, Name: name, VersionInfo: version, DownloadLocation: unknown, LicenseConcluded: unknown,
			LicenseDeclared: unknown, CopyrightText: unknown,
			ExternalRefs: []ExternalRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + name + "@" + version}},
		})
		d.Relationships = append(d.Relationships, Relationship{programID, "DEPENDS_ON", id})
	}
	add("SPDXRef-go", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	for i, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		add(fmt.Sprintf("SPDXRef-module-%d", i), module.Path, module.Version)
	}
	return d
}

func digestOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
