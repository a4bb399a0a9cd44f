package conformance

import "strings"

// Group is a letter of the list, for the test that writes the documentation and is outside of the package.
type Group = group

// Update is the flag -update.
func Update() bool { return *update }

// Groups returns the groups of cases, in the order of the documentation.
func Groups() []Group { return groups }

// Letter, Name and Proves are what a group is.
func (g group) Letter() string { return g.letter }
func (g group) Name() string   { return g.name }
func (g group) Proves() string { return g.proves }

// OutTable calls each for every entry of the list that is no case of this package.
func OutTable(each func(id string, priority int, title, reason string)) {
	for _, out := range outTable {
		each(out.id, priorityOf(out.id), out.title, out.reason)
	}
}

// Mutants calls each for every wrong backend that a suite is tested against, with the case that is named for it.
func Mutants(each func(suite, name, caught string)) {
	for _, m := range mutants {
		each("Run", m.name, m.caught)
	}
	for _, m := range faultMutants {
		each("RunFaults", strings.TrimPrefix(m.name, overHTTP), m.caught)
	}
	for _, m := range crashMutants {
		each("RunCrash", m.name, m.caught)
	}
	for _, m := range metadataMutants {
		each("RunMetadata", m.name, m.caught)
	}
}

// Needs returns the optional fields of the configuration that a case cannot do without, "" for none.
func Needs(c Case) string {
	for _, suite := range suites() {
		for _, tc := range suite.cases {
			if suite.name == c.Suite && tc.id == c.ID {
				return tc.needs.missing(0)
			}
		}
	}
	return ""
}
