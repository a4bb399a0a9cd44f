package gcs

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"strconv"
)

// problem is an error answer.
type problem struct {
	status  int
	reason  string
	message string
}

func noSuchObject(request Request) *problem {
	return &problem{404, "notFound", "No such object: " + request.Bucket + "/" + request.Key}
}

// errorDocument is what the JSON API sends with it.
type errorDocument struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Code    int         `json:"code"`
	Message string      `json:"message"`
	Errors  []errorItem `json:"errors"`
}

type errorItem struct {
	Message string `json:"message"`
	Domain  string `json:"domain"`
	Reason  string `json:"reason"`
}

// answer sends it in the form that the request is answered in.
func (p *problem) answer(w http.ResponseWriter, request Request) {
	switch {
	case request.Op == Read && request.XML:
		p.writeXML(w)
	case request.Op == Read:
		p.writePlain(w)
	default:
		p.write(w)
	}
}

func (p *problem) write(w http.ResponseWriter) {
	text, _ := json.Marshal(errorDocument{errorBody{p.status, p.message, []errorItem{{p.message, "global", p.reason}}}})
	p.send(w, "application/json; charset=UTF-8", text)
}

// writePlain sends the message alone, as the JSON API does where the bytes of an object were asked for.
func (p *problem) writePlain(w http.ResponseWriter) {
	p.send(w, "text/html; charset=UTF-8", []byte(p.message))
}

// xmlDocument is what the XML API sends.
type xmlDocument struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
}

// xmlCodes are the codes of the XML API for what the JSON API calls otherwise.
var xmlCodes = map[string]string{"requestedRangeNotSatisfiable": "InvalidRange", "notFound": "NoSuchBucket"}

func (p *problem) writeXML(w http.ResponseWriter) {
	code := p.reason
	if other := xmlCodes[code]; other != "" {
		code = other
	}
	text, _ := xml.Marshal(xmlDocument{Code: code, Message: p.message})
	p.send(w, "application/xml; charset=UTF-8", text)
}

func (p *problem) send(w http.ResponseWriter, contentType string, text []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Guploader-Uploadid", "fake")
	if p.status == http.StatusNotModified {
		text = nil
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(p.status)
	_, _ = w.Write(text)
}
