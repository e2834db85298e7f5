/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * certificates.h -- files with credentials, made anew for each run
 *
 * In a folder of its own: ca.pem and the certificates it has signed (node, expired), other-ca.pem and one
 * that it has signed (stranger), each as NAME.pem and NAME.key; files with pre-shared keys. Each test
 * includes it once.
 */

#ifndef TEST_SOFTRDMA_CERTIFICATES_H
#define TEST_SOFTRDMA_CERTIFICATES_H

#include <sys/stat.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#define DAY_S (24L * 3600)

static char certificates_dir[] = "certificates-XXXXXX";

/* the path of a file there; valid until the process ends */
static inline const char *
file_path(const char *name, const char *suffix)
{
	static char paths[16][128];
	static unsigned next;
	char *path = paths[next++ % 16];
	snprintf(path, sizeof(paths[0]), "%s/%s%s", certificates_dir, name, suffix);
	return path;
}

static inline void
write_file(const char *name, mode_t mode, const char *text, size_t len)
{
	const char *path = file_path(name, "");
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
}

struct identity {
	EVP_PKEY *key;
	X509 *cert;
};

static inline void
identity_free(struct identity *id)
{
	X509_free(id->cert);
	EVP_PKEY_free(id->key);
}

/* signed by the issuer, or by itself (NULL): a CA */
static inline struct identity
new_identity(const char *name, const struct identity *issuer, long days)
{
	static long serial;
	struct identity id = { .key = EVP_EC_gen("P-256"), .cert = X509_new() };
	assert_true(id.key && id.cert);
	X509_set_version(id.cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(id.cert), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(id.cert), -10 * DAY_S);
	X509_gmtime_adj(X509_getm_notAfter(id.cert), days * DAY_S);
	X509_set_pubkey(id.cert, id.key);
	X509_NAME *subject = X509_get_subject_name(id.cert);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(id.cert, issuer ? X509_get_subject_name(issuer->cert) : subject);
	if (issuer == NULL) {
		X509_EXTENSION *ca =
			X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
		assert_non_null(ca);
		X509_add_ext(id.cert, ca, -1);
		X509_EXTENSION_free(ca);
	}
	assert_true(X509_sign(id.cert, issuer ? issuer->key : id.key, EVP_sha256()) > 0);
	return id;
}

static inline void
write_identity(const char *name, const struct identity *id)
{
	FILE *file = fopen(file_path(name, ".pem"), "w");
	assert_non_null(file);
	assert_int_equal(PEM_write_X509(file, id->cert), 1);
	fclose(file);
	const char *path = file_path(name, ".key");
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(PEM_write_PrivateKey(file, id->key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
}

#define PSK_HEX "000102030405060708090a0b0c0d0e0f"

static inline int
certificates_init(void)
{
	if (mkdtemp(certificates_dir) == NULL)
		return -1;
	struct identity ca = new_identity("ca", NULL, 10), other_ca = new_identity("other-ca", NULL, 10);
	struct identity node = new_identity("node", &ca, 10), expired = new_identity("expired", &ca, -1);
	struct identity stranger = new_identity("stranger", &other_ca, 10);
	write_identity("ca", &ca);
	write_identity("other-ca", &other_ca);
	write_identity("node", &node);
	write_identity("expired", &expired);
	write_identity("stranger", &stranger);
	struct identity *all[] = { &ca, &other_ca, &node, &expired, &stranger };
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		identity_free(all[i]);
	write_file("psk", 0600, "cluster:" PSK_HEX "\n", strlen("cluster:" PSK_HEX "\n"));
	write_file("other-psk", 0600, "cluster:f" PSK_HEX "f", strlen("cluster:f" PSK_HEX "f"));
	write_file("other-name", 0600, "node:" PSK_HEX, strlen("node:" PSK_HEX));
	return 0;
}

static inline void
certificates_fini(void)
{
	char command[64];
	snprintf(command, sizeof(command), "rm -r %s", certificates_dir);
	assert_int_equal(system(command), 0); /* the test chose the name, so it needs no quoting */
}

/* puts a copy of one file in the place of another, at once, as programs that renew certificates do */
static inline void
replace_file(const char *from, const char *to, const char *suffix)
{
	char bytes[4096];
	FILE *file = fopen(file_path(from, suffix), "r");
	assert_non_null(file);
	size_t len = fread(bytes, 1, sizeof(bytes), file);
	assert_true(feof(file));
	fclose(file);
	write_file("next", 0600, bytes, len);
	assert_int_equal(rename(file_path("next", ""), file_path(to, suffix)), 0);
}

/* sets the certificate and key that the process uses from here on, and the CA that it trusts; NULL: none */
static inline void
use_certificates(const char *cert, const char *key, const char *ca)
{
	static const char *const names[] = { "SOFTRDMA_TLS_CERT", "SOFTRDMA_TLS_KEY", "SOFTRDMA_TLS_CA" };
	const char *values[] = { cert ? file_path(cert, ".pem") : NULL, key ? file_path(key, ".key") : NULL,
		ca ? file_path(ca, ".pem") : NULL };
	unsetenv("SOFTRDMA_TLS_PSK");
	for (int i = 0; i < 3; i++) {
		if (values[i])
			setenv(names[i], values[i], 1);
		else
			unsetenv(names[i]);
	}
}

static inline void
use_psk(const char *name)
{
	use_certificates(NULL, NULL, NULL);
	setenv("SOFTRDMA_TLS_PSK", file_path(name, ""), 1);
}

#endif /* TEST_SOFTRDMA_CERTIFICATES_H */
