package signcheck

import (
	"fmt"
	"slices"
)

// A Mistake is a mistake of a receiver.
type Mistake struct {
	Text string // the mistake, and the correct behavior
	Fix  []Line // code that fixes it; empty if the code is correct
}

// A variant is a key, a content or a digest that the receiver may have used, with the mistakes that
// lead to it.
type variant struct {
	bytes []byte
	wrong []Mistake
}

// but returns a variant with other bytes and more mistakes.
func (v variant) but(bytes []byte, more ...Mistake) variant {
	return variant{bytes, slices.Concat(v.wrong, more)}
}

// A Line is a line of code.
type Line struct{ Language, Code string }

// fix returns the fix in the three supported languages.
func fix(golang, node, python string) []Line {
	return []Line{{"Go", golang}, {"Node", node}, {"Python", python}}
}

// A hashing describes an HMAC in words and code.
type hashing struct{ words, golang, node, python string }

var (
	serviceHash = hashing{
		"X-Signature uses HMAC-SHA1",
		`mac := hmac.New(sha1.New, []byte(secret))`, `createHmac('sha1', secret)`, `hmac.new(secret, body, hashlib.sha1)`,
	}
	standardHash = hashing{
		"webhook-signature uses HMAC-SHA256",
		`mac := hmac.New(sha256.New, key)`, `createHmac('sha256', key)`, `hmac.new(key, content, hashlib.sha256)`,
	}
)

func wrongHash(name string, right hashing) Mistake {
	return Mistake{fmt.Sprintf("Your receiver uses %s. %s.", name, right.words), fix(right.golang, right.node, right.python)}
}

func noHMAC(name, over string, right hashing) Mistake {
	return Mistake{fmt.Sprintf("Your receiver computes a plain %s over %s. %s with the secret as the key.", name, over, right.words), fix(right.golang, right.node, right.python)}
}

// Code that fixes common mistakes.
var (
	hexLines     = fix(`hex.EncodeToString(mac.Sum(nil))`, `.digest('hex')`, `.hexdigest()`)
	b64Lines     = fix(`base64.StdEncoding.EncodeToString(mac.Sum(nil))`, `.digest('base64')`, `base64.b64encode(mac.digest()).decode()`)
	rawLines     = fix(`body, err := io.ReadAll(r.Body) // before parsing`, `app.use(express.raw({ type: '*/*' })) // req.body is a Buffer`, `body = request.get_data() # before request.json`)
	trimLines    = fix(`secret := strings.TrimSpace(os.Getenv("SHARED_SECRET"))`, `const secret = process.env.SHARED_SECRET.trim()`, `secret = os.environ["SHARED_SECRET"].strip().encode()`)
	keyLines     = fix(`key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))`, `const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')`, `key = base64.b64decode(secret.removeprefix("whsec_"))`)
	textLines    = fix(`mac := hmac.New(sha1.New, []byte(secret))`, `createHmac('sha1', secret) // the secret unchanged`, `hmac.new(secret.encode(), body, hashlib.sha1)`)
	contentLines = fix(`content := id + "." + timestamp + "." + string(body)`, "const content = `${id}.${timestamp}.${body}`", `content = f"{id}.{timestamp}.".encode() + body`)
)
