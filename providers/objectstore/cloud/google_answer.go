package cloud

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"strings"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// googleReasons are the errors of Google that mean something else to callers
// than their status says.
var googleReasons = map[string]error{
	"rateLimitExceeded":     objectstore.ErrThrottled, // 403 too
	"userRateLimitExceeded": objectstore.ErrThrottled, // 403 too
	"quotaExceeded":         objectstore.ErrNoSpace,
	"conflict":              objectstore.ErrUnavailable, // with another request that may fail
	"conditionNotMet":       objectstore.ErrPrecondition,
	"notFound":              objectstore.ErrNotExist,

	// Those of the XML API, which downloads use.
	"NoSuchKey":    objectstore.ErrNotExist,
	"NoSuchBucket": ErrNoBucket,
	"SlowDown":     objectstore.ErrThrottled, // 503
}

// read implements service.
func (g *google) read(op string, c *call) answer {
	a := googleAnswer(c.problem)
	a.request = c.header.Get("X-GUploader-UploadID")
	sentinel, known := googleReasons[a.code]
	if !known {
		sentinel = sentinelOf(c.status)
	}
	a.sentinel = sentinel
	if sentinel == objectstore.ErrNotExist && (op == opPut || op == opList) {
		a.sentinel = ErrNoBucket // there is nothing else that these two need
	}
	switch message := strings.ToLower(a.message); {
	case c.status == http.StatusNotFound && strings.Contains(message, "bucket does not exist"):
		a.sentinel = ErrNoBucket
	case c.status == http.StatusBadRequest && strings.Contains(message, "doesn't match calculated"):
		a.sentinel = objectstore.ErrUnavailable // damaged on the way: it is whole where it comes from
	case a.sentinel == objectstore.ErrDenied && strings.Contains(message, "billing"):
		a.hint = "the project of the bucket has no account to pay with"
	}
	return a
}

// googleAnswer reads the body of an error: JSON, XML, or text of somebody else.
func googleAnswer(problem []byte) answer {
	var inJSON struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `json:"error"`
	}
	if json.Unmarshal(problem, &inJSON) == nil && inJSON.Error.Message != "" {
		a := answer{message: inJSON.Error.Message}
		if len(inJSON.Error.Errors) > 0 {
			a.code = inJSON.Error.Errors[0].Reason
		}
		return a
	}
	if inXML := parseXML(problem); inXML.code != "" {
		return inXML
	}
	return answer{message: string(problem)}
}

// parseXML reads the body of an error in XML. The answer is empty if it is
// something else.
func parseXML(problem []byte) answer {
	var body struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}
	if xml.Unmarshal(problem, &body) != nil {
		return answer{}
	}
	return answer{code: body.Code, message: body.Message}
}
