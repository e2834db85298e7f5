/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_credentials.c -- the credentials that a side presents, and those that it accepts */

#include "connected.h"

#include "certificates.h"
#include "softrdma/wire/credentials.h"
#include "softrdma/wire/tls.h"

static int
look(struct softrdma_credentials **credentials)
{
	*credentials = NULL;
	log_clear();
	return softrdma_credentials_of_environment(credentials);
}

static void
expect_found(void)
{
	struct softrdma_credentials *credentials;
	assert_int_equal(look(&credentials), 0);
	assert_non_null(credentials);
	softrdma_credentials_put(credentials);
	assert_int_equal(log_worst, 0);
}

/* refused with an error message, the first time and the second */
static void
expect_refused(int error, const char *sentence)
{
	struct softrdma_credentials *credentials;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(look(&credentials), error);
		assert_null(credentials);
		assert_true(log_has(sentence));
		assert_int_equal(log_worst, SOFTRDMA_LOG_ERROR);
		assert_false(log_has(PSK_HEX));
	}
}

static void
test_nothing(void **state)
{
	(void)state;
	struct softrdma_credentials *credentials;
	use_certificates(NULL, NULL, NULL);
	assert_int_equal(look(&credentials), 0);
	assert_null(credentials);
	setenv("SOFTRDMA_TLS_CERT", "", 1);
	assert_int_equal(look(&credentials), 0);
	assert_null(credentials);
	assert_null(softrdma_credentials_get(NULL));
	softrdma_credentials_put(NULL);
	assert_int_equal(log_worst, 0);
}

static void
test_certificates(void **state)
{
	(void)state;
	struct softrdma_credentials *first, *again, *other;
	use_certificates("node", "node", "ca");
	assert_int_equal(look(&first), 0);
	assert_int_equal(look(&again), 0);
	assert_non_null(first);
	assert_ptr_equal(first, again);
	use_certificates("stranger", "stranger", "ca");
	assert_int_equal(look(&other), 0);
	assert_ptr_not_equal(first, other);
	softrdma_credentials_put(first);
	softrdma_credentials_put(again);
	softrdma_credentials_put(other);
	use_certificates("expired", "expired", "ca"); /* other processes will report it */
	expect_found();
}

static void
test_incomplete(void **state)
{
	(void)state;
	use_certificates("node", NULL, "ca");
	expect_refused(EINVAL, "SOFTRDMA_TLS_KEY is not set, but SOFTRDMA_TLS_CA is: set ");
	use_certificates(NULL, "node", NULL);
	expect_refused(EINVAL, "SOFTRDMA_TLS_CA is not set, but SOFTRDMA_TLS_KEY is: set ");
	use_certificates("node", "node", "ca");
	setenv("SOFTRDMA_TLS_PSK", file_path("psk", ""), 1);
	expect_refused(EINVAL, "both SOFTRDMA_TLS_CA and SOFTRDMA_TLS_PSK are set");
}

static void
test_bad_files(void **state)
{
	(void)state;
	use_certificates("nobody", "node", "ca");
	expect_refused(EINVAL, "no certificate can be read from");
	use_certificates("node", "nobody", "ca");
	expect_refused(ENOENT, "cannot be read: No such file or directory");
	use_certificates("node", "stranger", "ca");
	expect_refused(EINVAL, "no key of the certificate in");
	use_certificates("node", "node", "nobody");
	expect_refused(EINVAL, "no certificate of a CA can be read from");
	write_file("text.pem", 0644, "words", 5);
	write_file("text.key", 0600, "words", 5);
	use_certificates("text", "node", "ca");
	expect_refused(EINVAL, "no certificate can be read from");
	use_certificates("node", "text", "ca");
	expect_refused(EINVAL, "no key of the certificate in");
}

/* a process that can read the key can pretend to be this side */
static void
test_open_secrets(void **state)
{
	(void)state;
	const mode_t open[] = { 0604, 0602, 0601 };
	for (int i = 0; i < 3; i++) {
		assert_int_equal(chmod(file_path("node", ".key"), open[i]), 0);
		use_certificates("node", "node", "ca");
		expect_refused(EACCES, "is a secret, and everybody may use it");
		assert_int_equal(chmod(file_path("psk", ""), open[i]), 0);
		use_psk("psk");
		expect_refused(EACCES, "is a secret, and everybody may use it");
	}
	/* group permission is accepted: the group may exist for this purpose */
	assert_int_equal(chmod(file_path("psk", ""), 0640), 0);
	expect_found();
	fail_call(FAIL_MINE, "fstat", 0, 2, EIO);
	use_certificates("node", "node", "ca");
	struct softrdma_credentials *credentials;
	assert_int_equal(look(&credentials), EIO);
	fail_nothing();
	assert_int_equal(chmod(file_path("node", ".key"), 0600), 0);
	expect_found();
}

/* no user is there to enter a passphrase */
static void
test_passphrase(void **state)
{
	(void)state;
	EVP_PKEY *key = EVP_EC_gen("P-256");
	FILE *file = fopen(file_path("locked", ".key"), "w");
	assert_true(key && file);
	assert_int_equal(PEM_write_PrivateKey(file, key, EVP_aes_128_cbc(), (const unsigned char *)"word", 4,
				 NULL, NULL),
		1);
	fclose(file);
	EVP_PKEY_free(key);
	assert_int_equal(chmod(file_path("locked", ".key"), 0600), 0);
	use_certificates("node", "locked", "ca");
	expect_refused(EINVAL, "no key of the certificate in");
}

static void
expect_psk(const char *text, size_t len, bool good)
{
	/* under another name each time, because the device does not read a known file again */
	static unsigned number;
	char name[32];
	snprintf(name, sizeof(name), "psk-%u", number++);
	write_file(name, 0600, text, len);
	use_psk(name);
	if (good)
		expect_found();
	else
		expect_refused(EINVAL, "is not one line identity:key, with a key of 16 to 64 bytes");
}

#define LONG_NAME \
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" \
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void
test_psk(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool good;
	} cases[] = {
		{ "a:" PSK_HEX, true },
		{ "a:" PSK_HEX "\n", true },
		{ "a:" PSK_HEX "\r\n", true },
		{ "a:000102030405060708090A0B0C0D0E0F", true },
		{ "a:" PSK_HEX PSK_HEX PSK_HEX PSK_HEX "\n", true },
		{ LONG_NAME ":" PSK_HEX PSK_HEX PSK_HEX PSK_HEX "\n", true },
		{ "a:" PSK_HEX PSK_HEX PSK_HEX PSK_HEX "00", false },
		{ LONG_NAME "0:" PSK_HEX PSK_HEX PSK_HEX PSK_HEX, false },
		{ "", false },
		{ "a", false },
		{ ":" PSK_HEX, false },
		{ "a:", false },
		{ "a:000102030405060708090a0b0c0d0e", false },
		{ "a:" PSK_HEX "0", false },
		{ "a:" PSK_HEX "0g", false },
		{ "a:" PSK_HEX "\nb:" PSK_HEX "\n", false },
		{ "a: " PSK_HEX, false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_psk(cases[i].text, strlen(cases[i].text), cases[i].good);
	expect_psk("a:" PSK_HEX "\0rest", strlen("a:" PSK_HEX) + 5, false);
	use_psk("nobody");
	expect_refused(ENOENT, "cannot be read: No such file or directory");
}

/* looks at the files as the next connection does; true if it begins with other contents than the one before */
static bool
is_renewed(struct softrdma_credentials *credentials)
{
	const struct softrdma_tls_context *before = credentials->context;
	struct softrdma_tls *tls;
	log_clear();
	assert_int_equal(softrdma_credentials_start_tls(credentials, 0, true, &tls), 0);
	softrdma_tls_delete(tls);
	return credentials->context != before;
}

static void
expect_renewed(struct softrdma_credentials *credentials)
{
	assert_true(is_renewed(credentials));
	assert_true(log_has("new connections use what is in them now"));
	assert_false(is_renewed(credentials));
	assert_int_equal(log_worst, 0);
}

/* a line says it once, and not at each connection */
static void
expect_unusable(struct softrdma_credentials *credentials, const char *why)
{
	assert_false(is_renewed(credentials));
	assert_true(log_has(why));
	assert_true(log_has("new connections use what was read before"));
	assert_false(is_renewed(credentials));
	assert_int_equal(log_worst, 0);
}

static void
test_renewed(void **state)
{
	(void)state;
	struct softrdma_credentials *credentials, *again;
	replace_file("node", "renewed", ".pem");
	replace_file("node", "renewed", ".key");
	use_certificates("renewed", "renewed", "ca");
	assert_int_equal(look(&credentials), 0);
	assert_false(is_renewed(credentials));

	/* between the two files */
	replace_file("stranger", "renewed", ".pem");
	expect_unusable(credentials, "no key of the certificate in");
	replace_file("stranger", "renewed", ".key");
	expect_renewed(credentials);

	assert_int_equal(chmod(file_path("renewed", ".key"), 0604), 0);
	expect_unusable(credentials, "is a secret, and everybody may use it");
	assert_int_equal(chmod(file_path("renewed", ".key"), 0600), 0);
	expect_renewed(credentials);

	/* what was read stays, as without the look */
	assert_int_equal(unlink(file_path("renewed", ".key")), 0);
	assert_false(is_renewed(credentials));
	assert_int_equal(log_worst, 0);
	assert_int_equal(look(&again), 0);
	assert_ptr_equal(credentials, again);
	softrdma_credentials_put(again);

	/* under other variables, connections of the old ones still follow their files */
	use_psk("psk");
	assert_int_equal(look(&again), 0);
	assert_ptr_not_equal(credentials, again);
	replace_file("node", "renewed", ".pem");
	replace_file("node", "renewed", ".key");
	expect_renewed(credentials);
	assert_false(is_renewed(again));
	softrdma_credentials_put(credentials);
	softrdma_credentials_put(again);
}

static void
test_renewed_psk(void **state)
{
	(void)state;
	struct softrdma_credentials *credentials;
	replace_file("psk", "renewed-psk", "");
	use_psk("renewed-psk");
	assert_int_equal(look(&credentials), 0);
	assert_false(is_renewed(credentials));
	write_file("renewed-psk", 0600, "cluster:", 8);
	expect_unusable(credentials, "is not one line identity:key");
	replace_file("other-psk", "renewed-psk", "");
	expect_renewed(credentials);
	/* the context of a connection that goes on is not freed with it */
	struct softrdma_tls *tls;
	assert_int_equal(softrdma_credentials_start_tls(credentials, 0, true, &tls), 0);
	replace_file("psk", "renewed-psk", "");
	expect_renewed(credentials);
	softrdma_credentials_put(credentials);
	use_certificates(NULL, NULL, NULL);
	assert_int_equal(look(&credentials), 0);
	softrdma_tls_delete(tls);
}

/* those of a program change by a call, and not with the files, which may be gone by then */
static void
test_loaded_again(void **state)
{
	(void)state;
	struct softrdma_credentials *credentials = NULL;
	replace_file("node", "given", ".pem");
	replace_file("node", "given", ".key");
	const char *cert = file_path("given", ".pem"), *key = file_path("given", ".key");
	const char *ca = file_path("ca", ".pem");
	assert_int_equal(softrdma_credentials_load(cert, key, ca, &credentials), 0);
	replace_file("stranger", "given", ".pem");
	assert_false(is_renewed(credentials));
	assert_int_equal(log_worst, 0);
	struct softrdma_credentials *same = credentials;
	const struct softrdma_tls_context *before = credentials->context;
	assert_int_equal(softrdma_credentials_load(cert, key, ca, &credentials), EINVAL);
	assert_ptr_equal(credentials->context, before);
	/* a key of another kind, which OpenSSL puts beside the certificate */
	EVP_PKEY *other = EVP_RSA_gen(2048);
	FILE *file = fopen(key, "w");
	assert_non_null(file);
	assert_int_equal(PEM_write_PrivateKey(file, other, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
	EVP_PKEY_free(other);
	log_clear();
	assert_int_equal(softrdma_credentials_load(cert, key, ca, &credentials), EINVAL);
	assert_true(log_has("is not that of the certificate in"));
	assert_ptr_equal(credentials->context, before);
	replace_file("stranger", "given", ".key");
	assert_int_equal(softrdma_credentials_load(cert, key, ca, &credentials), 0);
	assert_ptr_equal(credentials, same);
	assert_ptr_not_equal(credentials->context, before);
	softrdma_credentials_put(credentials);
}

static void
test_no_memory_for_files(void **state)
{
	(void)state;
	struct softrdma_credentials *credentials = NULL;
	const char *cert = file_path("node", ".pem"), *key = file_path("node", ".key");
	const char *ca = file_path("ca", ".pem");
	for (unsigned skip = 0; skip < 2; skip++) { /* of the context, and of what holds it */
		fail_call(FAIL_MINE, "calloc", skip, 1, ENOMEM);
		assert_int_equal(softrdma_credentials_load(cert, key, ca, &credentials), ENOMEM);
		assert_int_equal(fail_nothing(), 1);
		assert_null(credentials);
	}
}

static void
test_no_memory(void **state)
{
	(void)state;
	struct softrdma_credentials *credentials;
	for (int psk = 0; psk < 2; psk++) {
		const char *calls[] = { "malloc", "calloc", "calloc", "calloc" };
		const unsigned skip[] = { 0, 0, 1, 2 };
		for (int i = 0; i < 4; i++) {
			use_certificates(NULL, NULL, NULL);
			assert_int_equal(look(&credentials), 0);
			if (psk)
				use_psk("psk");
			else
				use_certificates("node", "node", "ca");
			fail_call(FAIL_MINE, calls[i], skip[i], 1, ENOMEM);
			assert_int_equal(look(&credentials), ENOMEM);
			assert_int_equal(fail_nothing(), 1);
			assert_null(credentials);
			expect_found();
		}
	}
}

static int
setup_files(void **state)
{
	return setup_device(state) ? -1 : certificates_init();
}

static int
teardown_files(void **state)
{
	use_certificates(NULL, NULL, NULL);
	certificates_fini();
	return teardown_device(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_nothing),
		device_test(test_certificates),
		device_test(test_incomplete),
		device_test(test_bad_files),
		device_test(test_open_secrets),
		device_test(test_passphrase),
		device_test(test_psk),
		device_test(test_renewed),
		device_test(test_renewed_psk),
		device_test(test_loaded_again),
		device_test(test_no_memory_for_files),
		device_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, setup_files, teardown_files);
}
