package main

// Kafka's error codes, as far as this broker uses them.
const (
	codeNone                       int16 = 0
	codeUnknownServerError         int16 = -1
	codeOffsetOutOfRange           int16 = 1
	codeCorruptMessage             int16 = 2
	codeUnknownTopicOrPartition    int16 = 3
	codeLeaderNotAvailable         int16 = 5
	codeNotLeaderOrFollower        int16 = 6
	codeRequestTimedOut            int16 = 7
	codeBrokerNotAvailable         int16 = 8
	codeReplicaNotAvailable        int16 = 9
	codeMessageTooLarge            int16 = 10
	codeInvalidTopic               int16 = 17
	codeNotEnoughReplicas          int16 = 19
	codeNotEnoughReplicasAfter     int16 = 20
	codeInvalidRequiredAcks        int16 = 21
	codeInvalidTimestamp           int16 = 32
	codeUnsupportedVersion         int16 = 35
	codeTopicAlreadyExists         int16 = 36
	codeInvalidPartitions          int16 = 37
	codeInvalidReplicationFactor   int16 = 38
	codeInvalidReplicaAssignment   int16 = 39
	codeInvalidConfig              int16 = 40
	codeInvalidRequest             int16 = 42
	codeUnsupportedForFormat       int16 = 43
	codeOutOfOrderSequence         int16 = 45
	codeInvalidProducerEpoch       int16 = 47
	codeStorageError               int16 = 56
	codeUnknownProducerID          int16 = 59
	codeFetchSessionIDNotFound     int16 = 70
	codeFencedLeaderEpoch          int16 = 74
	codeUnknownLeaderEpoch         int16 = 75
	codeStaleBrokerEpoch           int16 = 77
	codeOffsetNotAvailable         int16 = 78
	codeInvalidRecord              int16 = 87
	codeUnknownTopicID             int16 = 100
	codeInconsistentTopicID        int16 = 103
	codeOffsetMovedToTieredStorage int16 = 109
)
