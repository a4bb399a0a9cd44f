// Package corpus keeps the seeds of the fuzz targets, which lie in testdata/fuzz beside the targets, equal to the code
// that says what they are. So a seed has a name, a reason and a verdict in a test, and none is left behind when a
// format changes. It also has what the property tests of decoders share: damage to bytes, and a measure of what a call
// allocates (S5).
package corpus
