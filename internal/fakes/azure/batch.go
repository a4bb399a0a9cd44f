package azure

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
)

// maxParts is what one batch takes.
const maxParts = 256

// statuses are those of the codes that tests give to single blobs of a batch.
var statuses = map[string]int{
	"BlobNotFound": 404, "ContainerNotFound": 404, "AuthorizationPermissionMismatch": 403, "AuthenticationFailed": 403,
	"ServerBusy": 503, "InternalError": 500, "OperationTimedOut": 500, "LeaseIdMissing": 412, "SnapshotsPresent": 409,
	"BlobImmutableDueToPolicy": 409,
}

func statusOf(code string) int {
	if status := statuses[code]; status != 0 {
		return status
	}
	return 400
}

// batch answers a Blob Batch whose parts are all deletes: each is authorised by itself, carried out, and answered in a
// part with its number.
func (s *Server) batch(r *http.Request, request Request, body []byte, fault Fault) (reply, *problem) {
	if s.cfg.NoBatch {
		return nil, &problem{status: 501, code: "NotImplemented", message: "The requested operation is not implemented on the specified resource."}
	}
	malformed := &problem{status: 400, code: "InvalidInput", message: "One of the request inputs is not valid."}
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/mixed" || !strings.HasPrefix(parameters["boundary"], "batch_") {
		return nil, malformed
	}
	var subs []*http.Request
	var ids []string
	parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil || part.Header.Get("Content-Type") != "application/http" {
			return nil, malformed
		}
		sub, err := http.ReadRequest(bufio.NewReader(part))
		if err != nil {
			return nil, malformed
		}
		ids = append(ids, part.Header.Get("Content-ID"))
		subs = append(subs, sub)
	}
	var answers []problem
	switch {
	case len(ids) == 0:
		return nil, malformed
	case len(ids) > maxParts: // nothing is carried out, and one part without a number says so
		ids, answers = []string{""}, []problem{{
			status: 400, code: "ExceedsMaxBatchRequestCount",
			message: "The batch operation exceeds maximum number of allowed subrequests.",
		}}
	}
	if answers == nil {
		for _, sub := range subs {
			answers = append(answers, s.part(sub, request, fault))
		}
	}
	var out bytes.Buffer
	answer := multipart.NewWriter(&out)
	for i, id := range ids {
		if answers[i].status == http.StatusAccepted && fault.Omit {
			continue
		}
		header := textproto.MIMEHeader{"Content-Type": {"application/http"}}
		if i == 0 && fault.ContentID != "" {
			id = fault.ContentID
		}
		if !fault.NoContentID && id != "" {
			header.Set("Content-ID", id)
		}
		part, err := answer.CreatePart(header)
		if err != nil {
			return nil, &problem{status: 500, code: "InternalError", message: err.Error()}
		}
		answers[i].part(part)
	}
	if err := answer.Close(); err != nil {
		return nil, &problem{status: 500, code: "InternalError", message: err.Error()}
	}
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "multipart/mixed; boundary="+answer.Boundary())
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(out.Bytes())
	}, nil
}

// part carries one part out. The result has the status of success and no code if all is well.
func (s *Server) part(sub *http.Request, request Request, fault Fault) problem {
	if refused := s.authorise(sub); refused != nil {
		return *refused
	}
	op, name, key := s.operationOf(sub.Method, sub.URL.Path, sub.URL.Query())
	if op != "DeleteBlob" || name != request.Container {
		return problem{status: 400, code: "InvalidInput", message: "One of the request inputs is not valid."}
	}
	container, exists := s.containers[name]
	if !exists {
		return *noContainer
	}
	if _, wrong := s.delete(container, key, fault); wrong != nil {
		return *wrong
	}
	return problem{status: http.StatusAccepted}
}

// part writes the answer as an HTTP answer within a part of another.
func (p *problem) part(w io.Writer) {
	text := p.text()
	_, _ = fmt.Fprintf(w, "HTTP/1.1 %d %s\r\n", p.status, http.StatusText(p.status))
	_, _ = io.WriteString(w, "x-ms-request-id: fake\r\n")
	if p.code != "" {
		_, _ = fmt.Fprintf(w, "x-ms-error-code: %s\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n", p.code, len(text))
	}
	_, _ = io.WriteString(w, "\r\n")
	_, _ = w.Write(text)
	_, _ = io.WriteString(w, "\r\n")
}
