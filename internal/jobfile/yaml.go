package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/leaderrun/leaderrun/internal/spelling"
)

// yamlReader reads a file as a tree of nodes, which know their lines and the exact text of their values.
type yamlReader struct {
	*reader
	keys []jobKey
}

// flaw is what is wrong with a value.
type flaw struct {
	at        *yaml.Node // nil: the value itself
	why, hint string
}

// told is the flaw of a node that was refused before anybody looked at its value.
var told = &flaw{}

func (r *reader) readYAML(text []byte) {
	if at, why := notText(text); at >= 0 {
		r.problem(lineOf(text, at), "", why, "a job file is plain text, in UTF-8")
		return
	}
	root, second, err := decode(text)
	if err != nil {
		r.notYAML(text, err)
		return
	}
	if second != nil {
		r.problem(second.Line, "", "a second document begins here", "remove the line `---` and what follows")
	}
	y := &yamlReader{reader: r, keys: jobKeys()}
	if root != nil {
		y.refuse(root)
		y.readTop(root)
	}
	if len(r.jobs) == 0 && len(r.problems) == 0 && !r.several {
		r.problem(0, "", "there is no job in it", "name one under `jobs:`")
	}
}

// decode returns the nodes of the first document, nil if it is empty, and of a second one if there is one.
func decode(text []byte) (root, second *yaml.Node, err error) {
	defer func() {
		// Package yaml panics where it meets what it holds for impossible.
		if p := recover(); p != nil {
			root, second, err = nil, nil, fmt.Errorf("%v", p)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var documents [2]yaml.Node
	for i := range documents {
		if err := decoder.Decode(&documents[i]); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return nil, nil, err
		}
	}
	if documents[1].Kind != 0 {
		second = &documents[1]
	}
	if len(documents[0].Content) > 0 {
		root = documents[0].Content[0]
	}
	if root != nil && root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		root = nil
	}
	return root, second, nil
}

// notText finds the first byte that no YAML file has; at is -1 if there is none.
func notText(text []byte) (at int, why string) {
	for i := 0; i < len(text); {
		c, n := utf8.DecodeRune(text[i:])
		switch {
		case c == utf8.RuneError && n == 1:
			return i, "there is text that is not valid UTF-8"
		case c < ' ' && !strings.ContainsRune("\t\r\n", c), c == 0x7f:
			return i, "there is a control character"
		}
		i += n
	}
	return -1, ""
}

// How package yaml begins an error, and those whose line is one too low and that of the block that an earlier line
// begins.
var (
	yamlPlace   = pattern(`^yaml: (?:line (\d+): )?`)
	yamlBlock   = pattern(`^did not find expected (key|'-' indicator|',' or)`)
	yamlUnknown = pattern(`^unknown anchor '(.*)' referenced`)
)

func (r *reader) notYAML(text []byte, err error) {
	why, line := err.Error(), 0
	if m := yamlPlace().FindStringSubmatch(why); m != nil {
		why = why[len(m[0]):]
		line, _ = strconv.Atoi(m[1])
	}
	why = strings.Join(strings.Fields(why), " ")
	hint := "the file is YAML: what belongs to a key stands two blanks deeper"
	switch m := yamlUnknown().FindStringSubmatch(why); {
	case m != nil:
		line = lineOf(text, max(bytes.Index(text, []byte("*"+m[1])), 0))
		hint = starHint
	case strings.Contains(why, "did not find expected alphabetic"):
		hint = starHint
	case yamlBlock().MatchString(why):
		line++
		why += ", in what begins here"
	case strings.Contains(why, "cannot start any token"):
		hint = "indent with blanks, not with tabs, and put a value that begins with @ or % in quotes"
	case strings.Contains(why, "mapping values are not allowed"):
		hint = "put a value with a colon in quotes, and begin each key in its own line"
	}
	r.problem(min(line, lineOf(text, len(text))), "", why, hint)
}

const starHint = `a value that begins with * needs quotes: "*/5 * * * *"`

// refuse reports what makes a file mean other than it looks.
func (y *yamlReader) refuse(n *yaml.Node) {
	const hint = "write the value out; keys that all jobs share go under `defaults:`"
	switch {
	case n.Kind == yaml.AliasNode:
		y.problem(n.Line, "", fmt.Sprintf("alias *%s: aliases are not read here", n.Value), hint)
	case n.Anchor != "":
		y.problem(n.Line, "", fmt.Sprintf("anchor &%s: anchors are not read here", n.Anchor), hint)
	case n.Tag == "!!merge":
		y.problem(n.Line, "", "merge key <<: merge keys are not read here", hint)
	case n.Style&yaml.TaggedStyle != 0:
		y.problem(n.Line, "", fmt.Sprintf("tag %s: tags are not read here", strconv.QuoteToASCII(n.Tag)), "remove it; quotes make a text of any value")
	}
	for _, child := range n.Content { // an alias has none
		y.refuse(child)
	}
}

// entry is a key and its value.
type entry struct {
	key   string
	at    *yaml.Node
	value *yaml.Node
}

// entries returns those of a mapping, each key once.
func (y *yamlReader) entries(n *yaml.Node, what string) []entry {
	switch {
	case n.Kind == yaml.AliasNode:
		return nil
	case n.Kind != yaml.MappingNode:
		y.problem(n.Line, what, kind(n)+" instead of keys and values", "write one `key: value` a line")
		return nil
	}
	var all []entry
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		at, value := n.Content[i], n.Content[i+1]
		if at.Kind == yaml.AliasNode || at.Tag == "!!merge" {
			continue
		}
		key, f := text(at)
		if f != nil {
			y.problem(at.Line, what, "a key that is no word", "put it in quotes")
			continue
		}
		if line, twice := first[key]; twice {
			y.problem(at.Line, what, fmt.Sprintf("key %q is given twice; the first is in line %d", key, line), "keep one of them")
			continue
		}
		first[key] = at.Line
		all = append(all, entry{key, at, value})
	}
	return all
}

// text returns a single value as it is written, without its quotes.
func text(n *yaml.Node) (string, *flaw) {
	switch {
	case n.Kind == yaml.AliasNode:
		return "", told
	case n.Kind != yaml.ScalarNode:
		return "", &flaw{at: n, why: kind(n) + " instead of a single value"}
	case n.Tag == "!!null":
		return "", &flaw{at: n, why: "it has no value", hint: `write one, or ""`}
	case strings.ContainsRune(n.Value, 0):
		return "", &flaw{at: n, why: "there is a zero byte in it"}
	}
	return n.Value, nil
}

func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Tag == "!!null":
		return "nothing"
	}
	return "a single value"
}

func (y *yamlReader) readTop(root *yaml.Node) {
	var zone, defaults, jobs *yaml.Node
	for _, e := range y.entries(root, "") {
		switch e.key {
		case "timezone":
			zone = e.value
		case "defaults":
			defaults = e.value
		case "jobs":
			jobs = e.value
		default:
			y.unknown(e, "", []string{"timezone", "defaults", "jobs"})
		}
	}
	base := y.newDraft()
	base.job.Dir = y.defaults.Dir
	base.fixes.jitter = "make it shorter; 0 is none"
	if zone != nil {
		y.set(base, "", entry{key: "timezone", at: zone, value: zone})
	}
	if defaults != nil {
		y.readDefaults(base, defaults, zone)
	}
	if jobs == nil || kind(jobs) == "nothing" {
		return
	}
	for _, e := range y.entries(jobs, "jobs") {
		y.readJob(base.derive(e.key, e.at.Line), e.value)
	}
}

// readDefaults puts into base what counts for every job that does not say otherwise.
func (y *yamlReader) readDefaults(base *draft, n, zone *yaml.Node) {
	if kind(n) == "nothing" {
		return
	}
	for _, e := range y.entries(n, "defaults") {
		switch {
		case e.key == "timezone" && zone != nil:
			y.problem(e.at.Line, "defaults: timezone", fmt.Sprintf("given twice; the first is in line %d", zone.Line), "keep one of them")
		case slices.ContainsFunc(y.keys, func(k jobKey) bool { return k.name == e.key && k.own }):
			y.problem(e.at.Line, "defaults: "+e.key, "it is each job's own", "write it in the jobs")
		default:
			y.set(base, "defaults: ", e)
		}
	}
}

func (y *yamlReader) readJob(d *draft, n *yaml.Node) {
	for _, e := range y.entries(n, d.what("")) {
		d.lines[e.key] = e.at.Line
		y.set(d, d.what("")+": ", e)
	}
	if n.Kind != yaml.MappingNode {
		y.claimName(d)
		return
	}
	switch command, shell := d.lines["command"], d.lines["shell"]; {
	case command == 0 && shell == 0:
		y.problem(d.line, d.what(""), "it has no command", "give it `command: [PROGRAM, ARG]`, or `shell: LINE`")
	case command != 0 && shell != 0:
		y.problem(shell, d.what("shell"), fmt.Sprintf("it has a command already, in line %d", command), "keep one of them")
	}
	if d.lines["schedule"] == 0 && d.lines["every"] == 0 {
		y.problem(d.line, d.what(""), "it has no schedule", "give it `schedule: \"0 2 * * *\"`, or `every: 15m`")
	}
	y.finish(d)
}

// set reads the value of a key into a draft.
func (y *yamlReader) set(d *draft, where string, e entry) {
	at := slices.IndexFunc(y.keys, func(k jobKey) bool { return k.name == e.key })
	if at < 0 {
		var known []string
		for _, k := range y.keys {
			if where != "defaults: " || !k.own {
				known = append(known, k.name)
			}
		}
		y.unknown(e, where, known)
		return
	}
	delete(d.wrong, e.key)
	f := y.keys[at].read(y, d, e.value)
	if f == nil {
		return
	}
	d.wrong[e.key] = true
	if f == told {
		return
	}
	line := e.value.Line
	if f.at != nil {
		line = f.at.Line
	}
	hint := f.hint
	if hint == "" {
		hint = "write it like `" + e.key + ": " + y.keys[at].example + "`"
	}
	y.problem(line, where+e.key, f.why, hint)
}

func (y *yamlReader) unknown(e entry, where string, known []string) {
	hint := "there are " + strings.Join(known, ", ")
	if meant := spelling.Closest(e.key, known); meant != "" {
		hint = "did you mean " + meant + "?"
	}
	y.problem(e.at.Line, strings.TrimSuffix(where, ": "), "unknown key "+strconv.Quote(e.key), hint)
}
