// Package drivertest holds the tests that the drivers of stores over HTTP have in common, each on the fake of its store:
// what goes wrong is told in words that all fakes know ([Fault]), and a [Subject] says what is meant by them there. What
// hangs on a protocol, such as codes and documents, is with the driver. Package conformance, which is for any backend,
// proves more of this over again; here it is seen from the server's side, request by request.
package drivertest
