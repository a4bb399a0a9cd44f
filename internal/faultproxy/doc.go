// Package faultproxy stands between an HTTP client and a server and does to their requests what a test wants: it loses
// answers, stalls, cuts, damages and answers itself, by a script that sees each request and says what goes wrong with it.
//
// A [Proxy] is an http.Handler in front of any server: one that is reached by a URL, or another http.Handler in the same
// process. It keeps the Host header, since signatures cover it. [Listen], [ListenTLS] and [Pipe] serve it: over a socket
// of the loopback device, the same with TLS, and over package pipenet inside a testing/synctest bubble.
package faultproxy
