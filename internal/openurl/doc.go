// Package openurl opens a store by its URL, for programs that take one on their command line:
//
//	file:///mnt/shared/segments
//	s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=us-east-1&path_style=true
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
//	kms_key_id   the KMS key that new objects are encrypted with
//	no_checksum  true: for old compatible stores that refuse checksum headers
//
// The package imports every backend, and so the SDKs of all of them. It is for programs alone: no package that a broker
// compiles imports it.
package openurl
