package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"strings"
)

// The parts of SPDX 2.3 that a bill of materials of a Go program has. https://spdx.github.io/spdx-spec/v2.3/
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		License       string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID         string          `json:"SPDXID"`
		Name       string          `json:"name"`
		Version    string          `json:"versionInfo"`
		Download   string          `json:"downloadLocation"`
		Analyzed   bool            `json:"filesAnalyzed"`
		Purpose    string          `json:"primaryPackagePurpose"`
		Concluded  string          `json:"licenseConcluded"`
		Declared   string          `json:"licenseDeclared"`
		Copyright  string          `json:"copyrightText"`
		Checksums  []spdxChecksum  `json:"checksums,omitempty"`
		References []spdxReference `json:"externalRefs"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

// materials writes a bill of materials for each build: what the linker has put into the program, by its own word.
func (r *release) materials(builds []*build) error {
	for _, b := range builds {
		info, err := buildinfo.Read(bytes.NewReader(b.program))
		if err != nil {
			return err
		}
		name := "leaderrun_" + r.number() + "_" + b.platform()
		program := spdxModule("SPDXRef-leaderrun", info.Main.Path, r.version)
		program.Purpose, program.Concluded, program.Declared = "APPLICATION", "Apache-2.0", "Apache-2.0"
		program.Checksums = []spdxChecksum{{"SHA256", digest(b.program)}}
		document := spdxDocument{
			Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
			Namespace: "https://github.com/leaderrun/leaderrun/releases/download/" + r.version + "/" + name + "-" + digest(b.program),
			Creation:  spdxCreation{r.date.Format("2006-01-02T15:04:05Z"), []string{"Tool: leaderrun-release"}},
			Packages:  []spdxPackage{program, spdxModule("SPDXRef-stdlib", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))},
			Relationships: []spdxRelationship{
				{"SPDXRef-DOCUMENT", "DESCRIBES", program.ID}, {program.ID, "CONTAINS", "SPDXRef-stdlib"},
			},
		}
		for i, dep := range info.Deps {
			id := fmt.Sprint("SPDXRef-module-", i+1)
			document.Packages = append(document.Packages, spdxModule(id, dep.Path, dep.Version))
			document.Relationships = append(document.Relationships, spdxRelationship{program.ID, "CONTAINS", id})
		}
		text, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			return err
		}
		if err := r.write(name+".spdx.json", append(text, '\n')); err != nil {
			return err
		}
	}
	return nil
}

func spdxModule(id, path, version string) spdxPackage {
	const unknown = "NOASSERTION"
	return spdxPackage{
		ID: id, Name: path, Version: version, Download: unknown, Purpose: "LIBRARY", Concluded: unknown, Declared: unknown, Copyright: unknown,
		References: []spdxReference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
	}
}
