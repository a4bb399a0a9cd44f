// Package conformance proves backends of walhop and metadata logs. This comment grows with the package.
package conformance
