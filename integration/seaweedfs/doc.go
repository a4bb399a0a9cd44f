// Package seaweedfs proves s3 on SeaweedFS, a second server of another make that speaks Amazon S3's protocol, over volumes
// and a tree of names of its own. It takes minutes, to compile and to run, so it runs only where it is named:
//
//	make integration SERVERS=seaweedfs
package seaweedfs
