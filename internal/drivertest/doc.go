// Package drivertest holds what the tests of the drivers of stores over HTTP have in common, on the fakes of their stores
// and, for package integration, on real servers. What hangs on a protocol, such as codes, documents and headers, is data
// beside each driver.
//
//   - A [Driver] says which package is tested. It opens drivers and Managers, tells the suites of package conformance how to
//     ([Driver.Suite], [Driver.Faults]), and has the wrong values of the fields that every configuration has
//     ([Driver.Wrong], for package configtest).
//   - A [Subject] is a driver on its fake: what goes wrong is told in words that all fakes know ([Fault]), and the subject
//     says what is meant by them there; [On] says how the fake is reached.
//   - A function that takes a Subject is a test: of what answers mean ([Meanings]), of lost answers ([Creates],
//     [LostAnswerAndNoCheck]), of broken reads and lists, of connections and contexts, of the buffer after a cancelled
//     upload ([BufferAfterACancelledUpload]), of secrets ([NoSecrets]). [OneUpload], [OtherCalls] and [Headers] are for the
//     wire form.
//
// Package conformance, which is for any backend, proves more of this over again; here it is seen from the server's side,
// request by request.
package drivertest
