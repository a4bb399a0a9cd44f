// Package failover kills and restarts the brokers of examples/broker under the load of real clients, and has Kafka's tool
// judge the files that they leave.
package failover
