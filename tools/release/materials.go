package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"strings"
)

// object is one of JSON.
type object = map[string]any

// materials writes a bill of materials for each build: what the linker has put into the program, by its own word.
func (r *release) materials(builds []*build) error {
	for _, b := range builds {
		info, err := buildinfo.Read(bytes.NewReader(b.program))
		if err != nil {
			return err
		}
		name := "leaderrun_" + r.number() + "_" + b.platform()
		program := spdxModule("SPDXRef-leaderrun", info.Main.Path, r.version)
		program["primaryPackagePurpose"], program["licenseConcluded"], program["licenseDeclared"] = "APPLICATION", "Apache-2.0", "Apache-2.0"
		program["checksums"] = []object{{"algorithm": "SHA256", "checksumValue": digest(b.program)}}
		packages, relationships := []object{program}, []object{spdxRelation("SPDXRef-DOCUMENT", "DESCRIBES", program)}
		contain := func(part object) {
			packages = append(packages, part)
			relationships = append(relationships, spdxRelation(program["SPDXID"], "CONTAINS", part))
		}
		contain(spdxModule("SPDXRef-stdlib", "stdlib", strings.TrimPrefix(info.GoVersion, "go")))
		for i, dep := range info.Deps {
			contain(spdxModule(fmt.Sprint("SPDXRef-module-", i+1), dep.Path, dep.Version))
		}
		text, err := json.MarshalIndent(object{
			"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
			"documentNamespace": "https://github.com/leaderrun/leaderrun/releases/download/" + r.version + "/" + name + "-" + digest(b.program),
			"creationInfo":      object{"created": r.date.Format("2006-01-02T15:04:05Z"), "creators": []string{"Tool: leaderrun-release"}},
			"packages":          packages, "relationships": relationships,
		}, "", "  ")
		if err != nil {
			return err
		}
		if err := r.write(name+".spdx.json", append(text, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// spdxModule is a package of SPDX 2.3. https://spdx.github.io/spdx-spec/v2.3/
func spdxModule(id, path, version string) object {
	const unknown = "NOASSERTION"
	return object{
		"SPDXID": id, "name": path, "versionInfo": version, "downloadLocation": unknown, "filesAnalyzed": false,
		"primaryPackagePurpose": "LIBRARY", "licenseConcluded": unknown, "licenseDeclared": unknown, "copyrightText": unknown,
		"externalRefs": []object{{
			"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "pkg:golang/" + path + "@" + version,
		}},
	}
}

func spdxRelation(element any, how string, to object) object {
	return object{"spdxElementId": element, "relationshipType": how, "relatedSpdxElement": to["SPDXID"]}
}
