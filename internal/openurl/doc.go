// Package openurl opens a store or a metadata log by its URL, for programs that take one on their command line. Stores:
//
//	file:///mnt/shared/segments
//	s3://bucket/prefix?region=eu-central-1
//	s3://bucket/prefix?endpoint=http://127.0.0.1:9000&path_style=true
//	gs://bucket/prefix
//	azblob://container/prefix?account=name
//
// Metadata logs:
//
//	file:///mnt/shared/events
//	kafka://host:port/topic
//
// A URL names a place and how to get there, and never a credential: those come from the environment, by the names that the
// tools of each store use. A URL that seems to have one in it is refused, in words that do not repeat it (W11).
//
// # file
//
// The path is an absolute directory that exists. No parameters, no credentials.
//
// # s3
//
// Amazon S3, S3 Express One Zone and compatible stores, by package s3. Credentials: AWS's chain, so AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, AWS_PROFILE, the shared files, or what the container or the instance has.
//
//	endpoint     URL of a store that is not Amazon's
//	region       such as eu-central-1; default: AWS_REGION or the profile's
//	path_style   true: the bucket stands in the path and not in the host name, as most stores that are not Amazon's need it
//	provider     the name of the store, where the endpoint does not show it: see s3.Config.Provider
//	kms_key_id   the KMS key that new objects are encrypted with
//	no_checksum  true: for old compatible stores that refuse checksum headers
//
// # gs
//
// Google Cloud Storage, by package gcs. Credentials: the application default credentials, so the file that
// GOOGLE_APPLICATION_CREDENTIALS names, what gcloud auth application-default login has left, or what the instance has.
//
//	endpoint     URL of an emulator, of a private endpoint or of a sovereign cloud; over plain http no credentials are
//	             looked for
//	anonymous    true: no credentials are looked for
//
// # azblob
//
// Azure Blob Storage, by package azure; what stands for the bucket is the container. Credentials: AZURE_STORAGE_KEY or
// AZURE_STORAGE_SAS_TOKEN, as Azure's command line knows them, and where neither is set azidentity's default chain. Both
// at once are refused, since tools do not agree on which of them counts. Connection strings are not read.
//
//	account      name of the storage account; default: AZURE_STORAGE_ACCOUNT
//	endpoint     URL of the blob service in a sovereign cloud, of a private endpoint or of an emulator, such as
//	             http://127.0.0.1:10000/devstoreaccount1
//	md5          true: the MD5 of the body is sent, for servers that refuse its CRC-64
//
// # file, as a metadata log
//
// The same, by package metadata/filelog.
//
// # kafka
//
// A topic of a Kafka cluster, by package metadata/kafkalog. There may be several brokers, host:port,host:port; a
// single one's port may be left out, then it is 9092. The topic's default is __remote_wal_log_metadata. Credentials: KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD.
//
//	partitions           over how many partitions the brokers are spread; the same for every broker, for ever; default 50
//	replication_factor   of a topic that has to be created; default 3
//	min_insync_replicas  of a topic that has to be created; default one less than replication_factor
//	rack                 the zone of this process
//	tls                  true: TLS, with the certificates that the system trusts
//	sasl                 plain, scram-sha-256 or scram-sha-512
//
// The package imports every backend, and so the SDKs of all of them. It is for programs alone: no package that a broker
// compiles imports it.
package openurl
