package s3

import "github.com/walhop/walhop/walstorage"

// providers is the table of the stores that something is known of. docs/backends.md shows it, by a test. A row claims
// nothing but what its facts say; what has no row is "compatible", of which nothing is known.
func providers() []provider {
	const conditional = "PutObject with If-None-Match: * creates, 412 says exists"
	return []provider{
		{
			name: nameAmazon, title: "Amazon S3",
			hosts:   []string{"amazonaws.com", "amazonaws.com.cn"},
			creates: createsDocumented,
			facts: []fact{
				{conditional + ", 409 ConditionalRequestConflict wants a repetition", byDocuments, "https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html"},
				{"CRC-32C in a header is verified, and returned with the object", byDocuments, "https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html"},
				{"DeleteObjects takes 1,000 keys", byDocuments, "https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html"},
			},
		},
		{
			name: nameExpress, title: "S3 Express One Zone",
			creates: createsDocumented,
			facts: []fact{
				{conditional + ", as for Amazon S3", byDocuments, "https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html"},
				{"lists come in no order, and prefixes end in /", byDocuments, "https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-express-differences.html"},
				{"the host name has the bucket, never the path", byDocuments, "https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html"},
				{"KMSKeyID is the id or the ARN of the bucket's own key, no alias", byDocuments, "https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html"},
			},
		},
		{
			name: "versitygw", title: "Versity S3 Gateway",
			creates:   createsMeasured,
			pathStyle: true,
			hides:     []string{".sgwtmp"},
			codes: map[string]error{
				"QuotaExceeded":       walstorage.ErrNoSpace, // 403
				"InsufficientStorage": walstorage.ErrNoSpace,
				"XAdminUserNotFound":  walstorage.ErrAccessDenied, // 404
				// 409, for every failure to put a file into its folder. No key of ours is a folder of others.
				"ExistingObjectIsDirectory": walstorage.ErrUnavailable,
			},
			facts: []fact{
				{conditional + ", over its posix backend", byMeasuring, "v1.8.0, 2026-11"},
				{"a create fails with ExistingObjectIsDirectory while a delete removes its folder, and is repeated", byMeasuring, "v1.8.0, 2026-11"},
				{"what is stored below a folder .sgwtmp is in no list, and the name is refused in Store.Prefix and Store.Cluster", byMeasuring, "v1.8.0, 2026-11"},
				{"started without --iam-dir it answers 404 to an access key that it does not know", byMeasuring, "v1.8.0, 2026-11"},
				{"before August 2026 several creates at once could all succeed", byReport, "versity/versitygw#2288"},
				{"the bucket is in the host name only with --virtual-domain", byDocuments, "versity/versitygw cmd/versitygw/main.go"},
				{"it closes a connection after each request unless started with --keep-alive", byMeasuring, "v1.8.0, 2026-11"},
				{"error codes", byDocuments, "versity/versitygw s3err/s3err.go"},
			},
		},
		{
			name: "minio", title: "MinIO",
			creates:   createsMeasured,
			pathStyle: true,
			codes: map[string]error{
				"SlowDownRead":                   walstorage.ErrUnavailable,
				"SlowDownWrite":                  walstorage.ErrUnavailable,
				"XMinioServerNotInitialized":     walstorage.ErrUnavailable,
				"XAmzContentChecksumMismatch":    walstorage.ErrCorrupt,
				"XMinioStorageFull":              walstorage.ErrNoSpace,
				"XMinioAdminBucketQuotaExceeded": walstorage.ErrNoSpace, // 400
			},
			facts: []fact{
				{conditional + ", on one node", byMeasuring, "2026-11"},
				{"without a read quorum the condition is ignored", byReport, "minio/minio#21603"},
				{"the bucket is in the host name only with MINIO_DOMAIN", byDocuments, "minio/minio cmd/common-main.go"},
				{"error codes", byDocuments, "minio/minio cmd/api-errors.go"},
			},
		},
		{
			name: "seaweedfs", title: "SeaweedFS",
			creates:   createsMeasured,
			pathStyle: true,
			hides:     []string{".uploads", "*.versions"},
			facts: []fact{
				{conditional, byMeasuring, "4.53, 2026-11"},
				{"who creates or deletes a key at the same time as others waits by the second, and goes on waiting in the store after giving up", byMeasuring, "4.53, 2026-11"},
				{"what is stored below a folder .uploads, or one that ends in .versions, is in no list, and such names are refused in Store.Prefix and Store.Cluster", byMeasuring, "4.53, 2026-11"},
				{"neither the checksum nor the signed digest of DeleteObjects is verified: use TLS", byMeasuring, "4.53, 2026-11"},
				{"a bucket that is missing is made by the first upload of an administrator, unless started with -s3.autoCreateBucket=false", byMeasuring, "4.53, 2026-11"},
				{"up to 4.16 several creates at once could all succeed", byReport, "seaweedfs/seaweedfs#8800"},
				{"the bucket is in the host name only with -s3.domainName", byDocuments, "seaweedfs/seaweedfs weed/command/s3.go"},
			},
		},
		{
			name: "ceph", title: "Ceph RGW",
			creates:   createsDocumented,
			pathStyle: true,
			codes: map[string]error{
				"QuotaExceeded": walstorage.ErrNoSpace, // 403
				"UserSuspended": walstorage.ErrAccessDenied,
			},
			facts: []fact{
				{conditional + ": an exclusive create in RADOS", byDocuments, "ceph/ceph src/rgw/driver/rados/rgw_rados.cc"},
				{"the bucket is in the host name only with rgw_dns_name", byDocuments, "https://docs.ceph.com/en/latest/radosgw/s3/commons/"},
				{"error codes", byDocuments, "ceph/ceph src/rgw/rgw_common.cc"},
			},
		},
		{
			name: "cloudflare-r2", title: "Cloudflare R2",
			hosts:      []string{"r2.cloudflarestorage.com"},
			creates:    createsDocumented,
			noChecksum: true,
			region:     "auto",
			facts: []fact{
				{conditional, byDocuments, "https://developers.cloudflare.com/r2/api/s3/extensions/"},
				{"that of several creates at once one alone succeeds is not said", byReport, "cloudflare/cloudflare-docs#32793"},
				{"CRC-32C is listed for parts of an upload alone, and no checksum for DeleteObjects", byDocuments, "https://developers.cloudflare.com/r2/api/s3/api/"},
				{"the region is auto", byDocuments, "https://developers.cloudflare.com/r2/api/s3/api/"},
				{"there is no SSE-KMS", byDocuments, "https://developers.cloudflare.com/r2/api/s3/api/"},
			},
		},
		{
			name: "wasabi", title: "Wasabi",
			hosts:     []string{"wasabisys.com"},
			creates:   createsUnknown,
			pathStyle: true,
			codes: map[string]error{
				"RequestRateLimitExceeded": walstorage.ErrUnavailable, // 403
			},
			facts: []fact{
				{"path style is recommended", byDocuments, "https://docs.wasabi.com/docs/rest-api-introduction"},
				{"error codes", byDocuments, "https://docs.wasabi.com/docs/rest-api-introduction"},
				{"what is deleted within 90 days is charged for 90 days", byDocuments, "https://docs.wasabi.com/docs/if-i-delete-a-file-within-90-days-after-storing-it-how-is-that-handled-from-a-billing-and-file-recovery-perspective"},
			},
		},
		{
			name: "backblaze-b2", title: "Backblaze B2",
			hosts:   []string{"backblazeb2.com"},
			creates: createsNone, instead: "use another store",
			facts: []fact{
				{"PutObject with If-None-Match is answered by 501 NotImplemented", byReport, "sathinduga/obsidian-s3-sync-and-backup#78"},
				{"a deleted object stays as a hidden version", byDocuments, "https://www.backblaze.com/apidocs/s3-delete-object"},
			},
		},
		{
			name: "google-xml", title: "Google Cloud Storage's XML API",
			hosts:   []string{"storage.googleapis.com"},
			creates: createsNone, instead: "package gcs speaks its own API",
			facts: []fact{
				{"If-None-Match counts for reads alone", byDocuments, "https://cloud.google.com/storage/docs/request-preconditions"},
			},
		},
		{
			name: "alibaba-oss", title: "Alibaba Cloud OSS",
			hosts:   []string{"aliyuncs.com"},
			creates: createsNone, instead: "use another store",
			facts: []fact{
				{"PutObject with If-None-Match is answered by 501 NotImplemented", byReport, "tobi/walgit#67"},
			},
		},
		{
			name: nameCompatible, title: "a compatible store",
			creates: createsUnknown,
			facts:   []fact{},
		},
	}
}

// common are the error codes of Amazon S3, of KMS behind it, and those that many compatible stores have, with what they
// mean (W7). A code that is neither here nor in a row of the table is judged by its status.
func common() map[string]error {
	return map[string]error{
		"NoSuchKey":    walstorage.ErrSegmentNotFound,
		"NoSuchBucket": walstorage.ErrBucketNotFound,

		"PreconditionFailed": walstorage.ErrSegmentExists, // of a create: nothing else here has a condition
		// "Somebody else is creating it, try again" is not "exists" (report apache/opendal#6741).
		"ConditionalRequestConflict": walstorage.ErrUnavailable,
		"OperationAborted":           walstorage.ErrUnavailable,

		"InvalidRange": walstorage.ErrInvalidRange,

		"AccessDenied":          walstorage.ErrAccessDenied,
		"AllAccessDisabled":     walstorage.ErrAccessDenied,
		"AccountProblem":        walstorage.ErrAccessDenied,
		"InvalidAccessKeyId":    walstorage.ErrAccessDenied,
		"InvalidToken":          walstorage.ErrAccessDenied,
		"SignatureDoesNotMatch": walstorage.ErrAccessDenied,
		"RequestTimeTooSkewed":  walstorage.ErrAccessDenied, // this machine's clock is wrong
		"KMS.DisabledException": walstorage.ErrAccessDenied,
		"InvalidObjectState":    walstorage.ErrAccessDenied, // moved to an archive by a lifecycle rule

		"SlowDown":                 walstorage.ErrUnavailable,
		"ServiceUnavailable":       walstorage.ErrUnavailable,
		"InternalError":            walstorage.ErrUnavailable,
		"RequestTimeout":           walstorage.ErrUnavailable, // 400, where the body came too slowly
		"IncompleteBody":           walstorage.ErrUnavailable, // the connection was cut on the way there
		"TooManyRequests":          walstorage.ErrUnavailable,
		"TooManyRequestsException": walstorage.ErrUnavailable,
		"Throttling":               walstorage.ErrUnavailable,
		"ThrottlingException":      walstorage.ErrUnavailable,
		"KMS.ThrottlingException":  walstorage.ErrUnavailable,
		"RequestLimitExceeded":     walstorage.ErrUnavailable,
		"RequestThrottled":         walstorage.ErrUnavailable,
		"BandwidthLimitExceeded":   walstorage.ErrUnavailable,

		"XAmzContentSHA256Mismatch": walstorage.ErrCorrupt,
		"BadDigest":                 walstorage.ErrCorrupt,
		"InvalidDigest":             walstorage.ErrCorrupt,

		"EntityTooLarge":           walstorage.ErrTooLarge,
		"MaxMessageLengthExceeded": walstorage.ErrTooLarge,
	}
}

// codesOf are the codes that a driver of the row knows: the common ones, those of all rows, since a proxy or another
// name may stand before any of them, and above them its own.
func codesOf(row provider) map[string]error {
	codes := common()
	for _, other := range append(providers(), row) {
		for code, kind := range other.codes {
			codes[code] = kind
		}
	}
	return codes
}
