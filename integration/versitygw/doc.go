// Package versitygw proves s3 on versitygw, a server of another make that speaks Amazon S3's protocol over a directory.
package versitygw
