/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_tls_reasons.c -- why TLS has failed, in the words of this side's credentials */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "softrdma/wire/tls_reasons.h"

#define CERTIFICATES false
#define PSK true

static const char *
reason(bool has_psk, int reason, long verified)
{
	return softrdma_tls_reason(has_psk, ERR_PACK(ERR_LIB_SSL, 0, reason), verified);
}

/* the sentence says which side has what, and what to do */
static void
expect(const char *text, const char *what, const char *way_out)
{
	assert_non_null(strstr(text, what));
	assert_non_null(strstr(text, way_out));
	assert_null(strchr(text, '\n'));
}

/* the peer's certificate does not fit: that says more than OpenSSL's reason */
static void
test_certificate_of_the_peer(void **state)
{
	(void)state;
	static const struct {
		long verified;
		const char *what, *way_out;
	} cases[] = {
		{ X509_V_ERR_CERT_HAS_EXPIRED, "the peer's certificate has expired", "renew it" },
		{ X509_V_ERR_CERT_NOT_YET_VALID, "the peer's certificate is not valid yet",
			"set the clocks right" },
		{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, "this side does not trust", "SOFTRDMA_TLS_CA" },
		{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, "this side does not trust",
			"SOFTRDMA_TLS_CA" },
		{ X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, "this side does not trust", "SOFTRDMA_TLS_CA" },
		{ X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, "this side does not trust", "SOFTRDMA_TLS_CA" },
		{ X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "this side does not trust", "SOFTRDMA_TLS_CA" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		expect(reason(CERTIFICATES, SSL_R_CERTIFICATE_VERIFY_FAILED, cases[i].verified),
			cases[i].what, cases[i].way_out);
		expect(reason(PSK, SSL_R_CERTIFICATE_VERIFY_FAILED, cases[i].verified),
			"the peer uses certificates, and this side a pre-shared key",
			"credentials of one kind");
	}
	/* what credentials do not cause is OpenSSL's text */
	assert_string_equal(
		reason(CERTIFICATES, SSL_R_CERTIFICATE_VERIFY_FAILED, X509_V_ERR_PATH_LENGTH_EXCEEDED),
		X509_verify_cert_error_string(X509_V_ERR_PATH_LENGTH_EXCEEDED));
}

/* an alert means another thing to a side with certificates than to one with a pre-shared key */
static void
test_alerts(void **state)
{
	(void)state;
	static const struct {
		bool has_psk;
		int reason;
		const char *what, *way_out;
	} cases[] = {
		{ CERTIFICATES, SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, "this side's certificate has expired",
			"renew it" },
		{ CERTIFICATES, SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, "the peer refuses this side's certificate",
			"one CA" },
		{ CERTIFICATES, SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
			"the peer refuses this side's certificate", "as server and as client" },
		{ CERTIFICATES, SSL_R_TLSV1_ALERT_UNKNOWN_CA, "the peer does not trust the CA", "one CA" },
		{ CERTIFICATES, SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
			"the peer uses a pre-shared key, and this side certificates",
			"credentials of one kind" },
		{ CERTIFICATES, SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "the peer has no certificate",
			"one CA" },
		{ PSK, SSL_R_BINDER_DOES_NOT_VERIFY, "the pre-shared keys of the two sides differ",
			"the same file" },
		{ PSK, SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER, "the pre-shared keys of the two sides differ",
			"the same file" },
		{ PSK, SSL_R_TLSV1_ALERT_DECRYPT_ERROR, "the pre-shared keys of the two sides differ",
			"the same file" },
		{ PSK, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, "different identities", "the same file" },
		{ PSK, SSL_R_NO_SHARED_CIPHER, "different identities", "the same file" },
		{ PSK, SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS, "different identities", "the same file" },
		{ PSK, SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, "different identities", "the same file" },
		{ PSK, SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY, "different identities", "the same file" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect(reason(cases[i].has_psk, cases[i].reason, X509_V_OK), cases[i].what, cases[i].way_out);
}

/* other failures are told in OpenSSL's words, and a number that it does not know by a sentence of ours */
static void
test_others(void **state)
{
	(void)state;
	for (int has_psk = 0; has_psk < 2; has_psk++) {
		assert_string_equal(reason(has_psk, SSL_R_WRONG_VERSION_NUMBER, X509_V_OK),
			ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, SSL_R_WRONG_VERSION_NUMBER)));
		assert_string_equal(softrdma_tls_reason(has_psk, 0, X509_V_OK),
			"for a reason that OpenSSL does not tell");
	}
}

/* OpenSSL has its texts once it is used */
static int
load_texts(void **state)
{
	(void)state;
	return !OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_certificate_of_the_peer),
		cmocka_unit_test(test_alerts),
		cmocka_unit_test(test_others),
	};
	return cmocka_run_group_tests(tests, load_texts, NULL);
}
