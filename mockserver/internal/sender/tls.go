package sender

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

var errSelfSigned = errors.New("the certificate is self-signed, so no request was sent: use a certificate signed by a public certificate authority, or by your own (tls.caFile)")

// roots returns the trusted certificate authorities: those in base or, if base is nil, the
// system's, and the certificates in the PEM file caFile.
func roots(base *x509.CertPool, caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return base, nil // with a nil pool, crypto/tls uses the authorities of the system
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("webhook: CA file: %w", err)
	}
	if base != nil {
		base = base.Clone()
	} else if base, err = x509.SystemCertPool(); err != nil {
		return nil, fmt.Errorf("webhook: the system's certificate authorities: %w", err)
	}
	if !base.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("webhook: CA file %s contains no PEM certificate", caFile)
	}
	return base, nil
}

// refuseSelfSigned refuses self-signed certificates that are among the roots. crypto/tls would
// accept them. It runs during the handshake, before the request is sent.
func refuseSelfSigned(state tls.ConnectionState) error {
	if isSelfSigned(state.PeerCertificates[0]) {
		return errSelfSigned
	}
	return nil
}

func isSelfSigned(leaf *x509.Certificate) bool {
	err := leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature)
	if errors.As(err, new(x509.InsecureAlgorithmError)) {
		// crypto/x509 does not verify MD5 signatures, so compare the names.
		return len(leaf.Subject.Names) > 0 && bytes.Equal(leaf.RawSubject, leaf.RawIssuer)
	}
	return err == nil
}

// certificateProblem explains a certificate error. ok is false for other errors.
func certificateProblem(err error) (reason webhook.Reason, text string, ok bool) {
	if errors.Is(err, errSelfSigned) {
		return webhook.ReasonSelfSigned, errSelfSigned.Error(), true
	}
	var failed *tls.CertificateVerificationError
	if !errors.As(err, &failed) || len(failed.UnverifiedCertificates) == 0 {
		return "", "", false
	}
	leaf := failed.UnverifiedCertificates[0]
	if isSelfSigned(leaf) {
		return webhook.ReasonSelfSigned, errSelfSigned.Error(), true
	}
	return webhook.ReasonCertificate, explainCertificate(failed.Err, leaf), true
}

func explainCertificate(err error, leaf *x509.Certificate) string {
	var (
		invalid  x509.CertificateInvalidError
		hostname x509.HostnameError
		unknown  x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		now := time.Now()
		if c := invalid.Cert; c != nil && now.Before(c.NotBefore) {
			return "the certificate is not valid before " + c.NotBefore.UTC().Format(time.RFC3339)
		} else if c != nil {
			return "the certificate expired on " + c.NotAfter.UTC().Format(time.RFC3339)
		}
	case errors.As(err, &hostname):
		return fmt.Sprintf("the certificate is not for the host %s but for %s", hostname.Host, names(leaf))
	case errors.As(err, &unknown):
		return fmt.Sprintf("the certificate is signed by an unknown authority (%s): add it to tls.caFile if it is yours", leaf.Issuer)
	}
	return "the certificate is not valid: " + err.Error()
}

// names returns the host names in a certificate.
func names(leaf *x509.Certificate) string {
	list := append([]string(nil), leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		list = append(list, ip.String())
	}
	if len(list) == 0 {
		return "none"
	}
	if len(list) > 5 {
		list = append(list[:5], "others")
	}
	return strings.Join(list, ", ")
}
