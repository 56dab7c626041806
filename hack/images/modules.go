package main

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

// The types below are the part of SPDX 2.3 that is needed to list the modules of a program.
// https://spdx.github.io/spdx-spec/v2.3
type (
	spdxDocument struct {
		SPDXVersion       string             `json:"spdxVersion"`
		DataLicense       string             `json:"dataLicense"`
		SPDXID            string             `json:"SPDXID"`
		Name              string             `json:"name"`
		DocumentNamespace string             `json:"documentNamespace"`
		CreationInfo      spdxCreationInfo   `json:"creationInfo"`
		DocumentDescribes []string           `json:"documentDescribes"`
		Packages          []spdxPackage      `json:"packages"`
		Relationships     []spdxRelationship `json:"relationships"`
	}
	spdxCreationInfo struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		SPDXID           string            `json:"SPDXID"`
		Name             string            `json:"name"`
		VersionInfo      string            `json:"versionInfo,omitempty"`
		DownloadLocation string            `json:"downloadLocation"`
		FilesAnalyzed    bool              `json:"filesAnalyzed"`
		LicenseConcluded string            `json:"licenseConcluded"`
		LicenseDeclared  string            `json:"licenseDeclared"`
		CopyrightText    string            `json:"copyrightText"`
		Checksums        []spdxChecksum    `json:"checksums,omitempty"`
		ExternalRefs     []spdxExternalRef `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm     string `json:"algorithm"`
		ChecksumValue string `json:"checksumValue"`
	}
	spdxExternalRef struct {
		ReferenceCategory string `json:"referenceCategory"`
		ReferenceType     string `json:"referenceType"`
		ReferenceLocator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		SPDXElementID      string `json:"spdxElementId"`
		RelationshipType   string `json:"relationshipType"`
		RelatedSPDXElement string `json:"relatedSpdxElement"`
	}
)

const (
	spdxUnknown = "NOASSERTION"
	spdxProgram = "SPDXRef-program"
)

// writeModules writes an SPDX document with the modules that a program is built from, as the
// program itself records them.
func writeModules(to, program string, a about) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read what it is built from: %w", err)
	}
	digest, err := digestOf(program)
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(modulesOf(filepath.Base(program), digest, info, a), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(to, append(raw, '\n'), 0o600)
}

func modulesOf(program, digest string, info *debug.BuildInfo, a about) spdxDocument {
	d := spdxDocument{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: program + " " + a.version,
		DocumentNamespace: "https://starling.io/spdx/" + program + "/" + digest,
		CreationInfo:      spdxCreationInfo{Created: a.created.Format(time.RFC3339), Creators: []string{"Tool: starling-images"}},
		DocumentDescribes: []string{spdxProgram},
		Packages: []spdxPackage{{
			SPDXID: spdxProgram, Name: program, VersionInfo: a.version, DownloadLocation: spdxUnknown, LicenseConcluded: spdxUnknown,
			LicenseDeclared: "Apache-2.0", CopyrightText: spdxUnknown, Checksums: []spdxChecksum{{"SHA256", digest}},
		}},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", spdxProgram}},
	}
	add := func(id, name, version string) {
		d.Packages = append(d.Packages, spdxPackage{
			SPDXID: id, Name: name, VersionInfo: version, DownloadLocation: spdxUnknown, LicenseConcluded: spdxUnknown,
			LicenseDeclared: spdxUnknown, CopyrightText: spdxUnknown,
			ExternalRefs: []spdxExternalRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + name + "@" + version}},
		})
		d.Relationships = append(d.Relationships, spdxRelationship{spdxProgram, "DEPENDS_ON", id})
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
