//go:build race

package caseresults

const raceDetector = true
