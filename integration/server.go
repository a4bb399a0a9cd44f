package integration

import (
	"os"
	"testing"
)

// Server is one of the servers, by the name that gaps.txt and conformance/results use.
type Server string

// The servers, each with the store that it stands for and that internal/fakes has a fake of.
const (
	// VersityGW speaks the protocol of Amazon S3.
	VersityGW Server = "versitygw"
	// SeaweedFS speaks it too. It is not part of every run: see package seaweedfs.
	SeaweedFS Server = "seaweedfs"
	// FakeGCS speaks the protocol of Google Cloud Storage.
	FakeGCS Server = "fake-gcs-server"
	// Azurite speaks the protocol of Azure's blob service.
	Azurite Server = "azurite"
	// Kafka is a metadata log. Its brokers are started by package kafka, and have no one address.
	Kafka Server = "kafka"
)

// variables name what .ci/integration tells of each server: the URL of its root.
var variables = map[Server]string{
	VersityGW: "WALHOP_VERSITYGW",
	SeaweedFS: "WALHOP_SEAWEEDFS",
	FakeGCS:   "WALHOP_FAKE_GCS_SERVER",
	Azurite:   "WALHOP_AZURITE",
	Kafka:     "", // told by kafka.Cluster
}

// Address returns the URL of the server's root, such as "http://127.0.0.1:7070". The test fails where the environment
// does not tell it.
func (s Server) Address(tb testing.TB) string {
	tb.Helper()
	address := os.Getenv(variables[s])
	if address == "" {
		tb.Fatalf("%s is not set: make integration starts the server and sets it", variables[s])
	}
	return address
}
