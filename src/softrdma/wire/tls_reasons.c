/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * tls_reasons.c -- why TLS has failed, as a sentence for the user
 *
 * One side finds what does not fit, and sends an alert; the other side has only that alert. Both must be able to tell
 * their user what to do, so an alert is translated by what can have caused it.
 */

#include <stddef.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "softrdma/wire/tls_reasons.h"

/* message(tls): on both sides: one identity, two keys -> Copy the file of one side to the other. */
#define OTHER_KEY "the pre-shared keys of the two sides differ: give both the same file (SOFTRDMA_TLS_PSK)"
/*
 * message(tls): on both sides, or on the side with the key -> Copy the file of one side to the other; or
 * configure certificates on both.
 */
#define OTHER_IDENTITY \
	"the pre-shared keys of the two sides have different identities, or the peer uses certificates: give both the " \
	"same file (SOFTRDMA_TLS_PSK)"
/*
 * message(tls, kinds-of-credentials): the sides have different kinds of credentials -> Either
 * `SOFTRDMA_TLS_PSK` on both, or the other three variables on both.
 */
#define CERTIFICATES_AND_KEY \
	"the peer uses certificates, and this side a pre-shared key: give both sides credentials of one kind"
#define ONE_CA "give both sides certificates of one CA, and that CA (SOFTRDMA_TLS_CA)"

struct sentence {
	long code;
	const char *text;
};

/* the peer's certificate, as this side sees it */
static const struct sentence verified_as[] = {
	/*
	 * message(tls, dates-of-certificate): the dates of a certificate (`openssl x509 -in FILE -noout
	 * -dates`) -> Renew it and start the program again.
	 */
	{ X509_V_ERR_CERT_HAS_EXPIRED,
		"the peer's certificate has expired: renew it, or set the clocks right" },
	/* message(dates-of-certificate) */
	{ X509_V_ERR_CERT_NOT_YET_VALID, "the peer's certificate is not valid yet: set the clocks right" },
	/*
	 * message(tls, another-ca): the certificates do not lead to the CA of the other side -> Give both
	 * sides certificates of one CA, and that CA's certificate in `SOFTRDMA_TLS_CA`.
	 */
	{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
		"the peer's certificate is of a CA that this side does not trust: " ONE_CA },
	{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
		"the peer's certificate is of a CA that this side does not trust: " ONE_CA },
	{ X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
		"the peer's certificate is of a CA that this side does not trust: " ONE_CA },
	{ X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
		"the peer's certificate is of a CA that this side does not trust: " ONE_CA },
	{ X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
		"the peer's certificate is of a CA that this side does not trust: " ONE_CA },
};

/* with a certificate on this side */
static const struct sentence of_certificates[] = {
	/* message(dates-of-certificate) */
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
		"this side's certificate has expired, the peer says: renew it, or set the clocks right" },
	/* message(another-ca) */
	{ SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, "the peer refuses this side's certificate: " ONE_CA },
	/*
	 * message(tls): the certificate names usages -> Name *serverAuth* and *clientAuth* in its extended
	 * usages, or none.
	 */
	{ SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
		"the peer refuses this side's certificate: it must allow the use as server and as client" },
	/* message(another-ca) */
	{ SSL_R_TLSV1_ALERT_UNKNOWN_CA,
		"the peer does not trust the CA of this side's certificate, or uses a pre-shared key: " ONE_CA },
	/* message(kinds-of-credentials) */
	{ SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
		"the peer uses a pre-shared key, and this side certificates: give both sides credentials of one kind" },
	/* message(another-ca) */
	{ SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "the peer has no certificate: " ONE_CA },
};

/* with a pre-shared key on this side */
static const struct sentence of_psk[] = {
	{ SSL_R_BINDER_DOES_NOT_VERIFY, OTHER_KEY },
	{ SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER, OTHER_KEY },
	{ SSL_R_TLSV1_ALERT_DECRYPT_ERROR, OTHER_KEY },
	{ SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, OTHER_IDENTITY },
	{ SSL_R_NO_SHARED_CIPHER, OTHER_IDENTITY },
	{ SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS, OTHER_IDENTITY },
	{ SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, OTHER_IDENTITY },
	{ SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY, OTHER_IDENTITY },
};

static const char *
find(const struct sentence *sentences, size_t count, long code)
{
	for (size_t i = 0; i < count; i++) {
		if (sentences[i].code == code)
			return sentences[i].text;
	}
	return NULL;
}

#define FIND(sentences, code) find(sentences, sizeof(sentences) / sizeof((sentences)[0]), code)

/* the text of OpenSSL, which is static */
static const char *
own_text(unsigned long error)
{
	const char *text = ERR_reason_error_string(error);
	return text ? text : "for a reason that OpenSSL does not tell";
}

const char *
softrdma_tls_reason(bool has_psk, unsigned long error, long verified)
{
	const long reason = ERR_GET_REASON(error);
	if (verified != X509_V_OK && has_psk)
		return CERTIFICATES_AND_KEY;
	const char *text = NULL;
	/* the result of verifying the certificate says more than the reason, which is only that it was verified */
	if (verified != X509_V_OK) {
		text = FIND(verified_as, verified);
		return text ? text : X509_verify_cert_error_string(verified);
	}
	text = has_psk ? FIND(of_psk, reason) : FIND(of_certificates, reason);
	return text ? text : own_text(error);
}
