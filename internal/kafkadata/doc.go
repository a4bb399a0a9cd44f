// Package kafkadata holds log segments that a real Apache Kafka broker wrote, with Kafka's own description of every
// batch in them, for tests. README.md says what each topic shows and how to make the files again.
package kafkadata
