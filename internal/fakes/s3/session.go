package s3

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"time"
)

type sessionResult struct {
	XMLName     xml.Name `xml:"CreateSessionResult"`
	Credentials sessionCredentials
}

type sessionCredentials struct {
	SessionToken    string
	SecretAccessKey string
	AccessKeyID     string `xml:"AccessKeyId"`
	Expiration      string
}

// session is how long a session of a directory bucket lasts.
const session = 5 * time.Minute

// createSession begins a session of a directory bucket.
func (s *Server) createSession() (reply, *problem) {
	token := fmt.Sprintf("session-%d", len(s.sessions)+1)
	until := time.Now().Add(session)
	s.sessions[token] = until
	return document(sessionResult{Credentials: sessionCredentials{
		SessionToken: token, SecretAccessKey: "secret-of-" + token, AccessKeyID: "key-of-" + token,
		Expiration: until.Add(s.cfg.Skew).UTC().Format(time.RFC3339), // by the server's clock
	}}), nil
}

// inSession tells whether the request belongs to a session that has not expired.
func (s *Server) inSession(r *http.Request) bool {
	until, known := s.sessions[r.Header.Get("X-Amz-S3session-Token")]
	return known && time.Now().Before(until)
}
