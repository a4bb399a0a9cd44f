// Package caseresults keeps what became of each case of the conformance suites, backend by backend, in the files
// conformance/results/<name>.txt: docs/conformance.md is made of them, and a change in them is seen in review. A test
// adopts it in one line:
//
//	Report: caseresults.Record(t, "s3"),
//
// When the test has ended well and has run every case of a suite, the results are compared with the file, and a
// difference fails the test. After a change that is meant, write the files anew:
//
//	WALHOP_UPDATE_RESULTS=1 go test -p 1 ./...
//	go test ./conformance -run TestCaseTable -update
//
// -p 1 because two packages may not write one file at once. A file has a section for each suite (Run, RunFaults,
// RunCrash, RunMetadata), in which each case is a line: an id is one case of a suite, and may be in two of them. Several
// tests may record under one name as long as each suite is recorded by one of them; each compares and writes the
// sections of its own suites only.
//
// Nothing is compared or written where cases are left out for other reasons than the backend's: under -run with a part
// for a case, with -short, under the race detector, and on other systems than Linux.
package caseresults
