// Package fakegcs proves gcs on fake-gcs-server, a server of another make that speaks Google Cloud Storage's protocol.
package fakegcs
