package conformance

type topic struct{}

var metadataCases []testCase
