/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* raw_tls_openssl.c -- TLS of attackers that have credentials */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include "deadline.h"
#include "raw_tls.h"

/* more descriptors than an attacker opens */
#define FDS_MAX 4096

/* TLS_AES_128_GCM_SHA256, the only cipher that attackers use (RFC 8446) */
#define CIPHER "TLS_AES_128_GCM_SHA256"
#define SECRET_SIZE 32
#define NAME_SIZE 128
#define KEY_SIZE 16
#define IV_SIZE 12
#define TAG_SIZE 16
#define RECORD_HEADER 5

struct stream {
	SSL *ssl;                    /* NULL: plain */
	BIO *out;                    /* of a creeping handshake: what OpenSSL has written */
	uint64_t records;            /* sent since the handshake */
	uint8_t secret[SECRET_SIZE]; /* from which the keys for sending are derived */
};

static struct stream streams[FDS_MAX]; /* by descriptor */

bool
raw_tls_is_wanted(void)
{
	return getenv("SOFTRDMA_TLS_CERT") || getenv("SOFTRDMA_TLS_PSK");
}

static const char *
file_of(const char *variable)
{
	const char *path = getenv(variable);

	if (path == NULL) {
		fprintf(stderr, "attackers want %s as well\n", variable);
		exit(1);
	}
	return path;
}

/* keeps the secret of a line of the key log: CLIENT_TRAFFIC_SECRET_0 <random> <secret>, in hexadecimal */
static void
keep_secret(const SSL *ssl, const char *line)
{
	static const char label[] = "CLIENT_TRAFFIC_SECRET_0 ";
	struct stream *stream = SSL_get_app_data(ssl);
	const char *hex = strrchr(line, ' ');

	if (stream == NULL || hex == NULL || strncmp(line, label, sizeof(label) - 1) != 0)
		return;
	for (size_t i = 0; i < SECRET_SIZE; i++) {
		const char digits[] = { hex[1 + 2 * i], hex[2 + 2 * i], 0 };
		stream->secret[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
}

static void
must(bool done)
{
	if (done)
		return;
	ERR_print_errors_fp(stderr);
	exit(1);
}

/* reads the file with the key: <name>:<hexadecimal digits> */
static size_t
read_key(char name[static NAME_SIZE], uint8_t key[static SECRET_SIZE])
{
	char digits[2 * SECRET_SIZE + 1];
	FILE *f = fopen(file_of("SOFTRDMA_TLS_PSK"), "r");

	must(f && fscanf(f, "%127[^:]:%64[0-9a-f]", name, digits) == 2);
	fclose(f);
	const size_t len = strlen(digits) / 2;
	for (size_t i = 0; i < len; i++) {
		const char two[] = { digits[2 * i], digits[2 * i + 1], 0 };
		key[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	return len;
}

/* OpenSSL treats a pre-shared key as a session */
static int
offer_key(SSL *ssl, const EVP_MD *digest, const unsigned char **identity, size_t *len, SSL_SESSION **session)
{
	static const unsigned char cipher[] = { 0x13, 0x01 };
	static char name[NAME_SIZE];
	uint8_t key[SECRET_SIZE];

	(void)digest;
	const size_t key_len = read_key(name, key);
	*identity = (const unsigned char *)name;
	*len = strlen(name);
	*session = SSL_SESSION_new();
	must(*session && SSL_SESSION_set1_master_key(*session, key, key_len) == 1 &&
		SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, cipher)) == 1 &&
		SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION) == 1);
	return 1;
}

static SSL_CTX *
new_context(void)
{
	SSL_CTX *ctx;

	signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
	ctx = SSL_CTX_new(TLS_client_method());
	must(ctx && SSL_CTX_set_ciphersuites(ctx, CIPHER) == 1);
	if (getenv("SOFTRDMA_TLS_PSK"))
		SSL_CTX_set_psk_use_session_callback(ctx, offer_key);
	else
		must(SSL_CTX_load_verify_file(ctx, file_of("SOFTRDMA_TLS_CA")) == 1);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_keylog_callback(ctx, keep_secret);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ctx;
}

static SSL_CTX *
context(void)
{
	static SSL_CTX *ctx;

	if (ctx)
		return ctx;
	ctx = new_context();
	if (getenv("SOFTRDMA_TLS_PSK") == NULL)
		must(SSL_CTX_use_certificate_chain_file(ctx, file_of("SOFTRDMA_TLS_CERT")) == 1 &&
			SSL_CTX_use_PrivateKey_file(ctx, file_of("SOFTRDMA_TLS_KEY"), SSL_FILETYPE_PEM) == 1);
	return ctx;
}

static SSL_CTX *
context_without_certificate(void)
{
	static SSL_CTX *ctx;

	if (ctx == NULL)
		ctx = new_context();
	return ctx;
}

/* translates the failure of a call into errno; *events: what it waits for */
static ssize_t
failed(SSL *ssl, int ret, short *events)
{
	int error = errno;

	switch (SSL_get_error(ssl, ret)) {
	case SSL_ERROR_WANT_READ:
		*events = POLLIN;
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_WANT_WRITE:
		*events = POLLOUT;
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		errno = error ? error : ECONNRESET;
		return -1;
	default:
		errno = ECONNRESET;
		return -1;
	}
}

/* a new TLS stream of this socket; or NULL */
static SSL *
new_stream(int fd, SSL_CTX *ctx)
{
	SSL *ssl = fd < FDS_MAX ? SSL_new(ctx) : NULL;

	if (ssl == NULL || SSL_set_fd(ssl, fd) != 1 || fcntl(fd, F_SETFL, O_NONBLOCK)) {
		SSL_free(ssl);
		return NULL;
	}
	streams[fd] = (struct stream){ .ssl = ssl };
	SSL_set_app_data(ssl, &streams[fd]);
	return ssl;
}

static bool
begin(int fd, SSL_CTX *ctx, int timeout_ms)
{
	const int64_t end = now_ms() + timeout_ms;
	struct pollfd pfd = { .fd = fd };
	SSL *ssl = new_stream(fd, ctx);
	int ret;

	if (ssl == NULL)
		return false;
	do {
		ERR_clear_error();
		ret = SSL_connect(ssl);
		if (ret != 1 && (failed(ssl, ret, &pfd.events) == 0 || errno != EAGAIN))
			break;
	} while (ret != 1 && poll(&pfd, 1, left_ms(end)) == 1);
	if (ret != 1)
		raw_tls_forget(fd);
	return ret == 1;
}

bool
raw_tls_begin(int fd, int timeout_ms)
{
	return begin(fd, context(), timeout_ms);
}

bool
raw_tls_begin_without_certificate(int fd, int timeout_ms)
{
	const bool begun = begin(fd, context_without_certificate(), timeout_ms);

	raw_tls_forget(fd);
	return begun;
}

bool
raw_tls_is_on(int fd)
{
	return fd < FDS_MAX && streams[fd].ssl;
}

void
raw_tls_forget(int fd)
{
	if (!raw_tls_is_on(fd))
		return;
	SSL_free(streams[fd].ssl);
	streams[fd].ssl = NULL;
}

ssize_t
raw_tls_send(int fd, const void *bytes, size_t len, short *events)
{
	ERR_clear_error();
	errno = 0;
	int n = SSL_write(streams[fd].ssl, bytes, len < INT_MAX ? (int)len : INT_MAX);

	streams[fd].records += n > 0;
	return n > 0 ? n : failed(streams[fd].ssl, n, events);
}

ssize_t
raw_tls_recv(int fd, void *bytes, size_t len, short *events)
{
	ERR_clear_error();
	errno = 0;
	int n = SSL_read(streams[fd].ssl, bytes, len < INT_MAX ? (int)len : INT_MAX);

	return n > 0 ? n : failed(streams[fd].ssl, n, events);
}

/* --- handshakes byte by byte --- */

bool
raw_tls_creep_begin(int fd)
{
	SSL *ssl = new_stream(fd, context());
	BIO *out = BIO_new(BIO_s_mem());

	if (ssl == NULL || out == NULL) {
		BIO_free(out);
		return false;
	}
	SSL_set0_wbio(ssl, out);
	streams[fd].out = out;
	return true;
}

bool
raw_tls_creep(int fd)
{
	struct stream *stream = &streams[fd];
	short events;
	char byte;

	if (BIO_pending(stream->out) == 0) {
		ERR_clear_error();
		int ret = SSL_connect(stream->ssl);
		if (ret != 1 && (failed(stream->ssl, ret, &events) == 0 || errno != EAGAIN))
			return false;
		if (BIO_pending(stream->out) == 0)
			return ret != 1;
	}
	if (BIO_read(stream->out, &byte, 1) != 1)
		return false;
	return send(fd, &byte, 1, MSG_NOSIGNAL) == 1;
}

size_t
raw_tls_hello(const char *group, uint8_t bytes[static RAW_TLS_HELLO_MAX])
{
	SSL *ssl = SSL_new(context_without_certificate());
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	int len;

	must(ssl && in && out && SSL_set1_groups_list(ssl, group) == 1);
	SSL_set_bio(ssl, in, out);
	(void)SSL_connect(ssl); /* it stops where it waits for the server's answer */
	len = BIO_read(out, bytes, RAW_TLS_HELLO_MAX);
	SSL_free(ssl);
	return len > 0 ? (size_t)len : 0;
}

/* --- records made by hand --- */

struct raw_tls_sealer {
	uint8_t secret[SECRET_SIZE];
	uint8_t iv[IV_SIZE];
	uint64_t seq;
	EVP_CIPHER_CTX *cipher;
};

/* HKDF-Expand-Label without a context (RFC 8446, 7.1), of at most one digest */
static void
expand(const uint8_t secret[static SECRET_SIZE], const char *label, uint8_t *out, size_t len)
{
	uint8_t info[64] = { 0, (uint8_t)len };
	uint8_t digest[SECRET_SIZE];
	const int written = snprintf((char *)info + 3, sizeof(info) - 3, "tls13 %s", label);

	info[2] = (uint8_t)written;
	/* after the label: the length of the context, which is 0, and the number of the block */
	info[3 + written] = 0;
	info[4 + written] = 1;
	must(HMAC(EVP_sha256(), secret, SECRET_SIZE, info, (size_t)written + 5, digest, NULL) != NULL);
	memcpy(out, digest, len);
}

static void
use_secret(struct raw_tls_sealer *sealer)
{
	uint8_t key[KEY_SIZE];

	expand(sealer->secret, "key", key, sizeof(key));
	expand(sealer->secret, "iv", sealer->iv, sizeof(sealer->iv));
	must(EVP_EncryptInit_ex(sealer->cipher, NULL, NULL, key, NULL) == 1);
	sealer->seq = 0;
}

struct raw_tls_sealer *
raw_tls_take_over(int fd)
{
	struct raw_tls_sealer *sealer = calloc(1, sizeof(*sealer));

	must(sealer != NULL && raw_tls_is_on(fd));
	memcpy(sealer->secret, streams[fd].secret, SECRET_SIZE);
	sealer->cipher = EVP_CIPHER_CTX_new();
	must(sealer->cipher != NULL &&
		EVP_EncryptInit_ex(sealer->cipher, EVP_aes_128_gcm(), NULL, NULL, NULL) == 1);
	use_secret(sealer);
	sealer->seq = streams[fd].records;
	raw_tls_forget(fd);
	return sealer;
}

void
raw_tls_sealer_delete(struct raw_tls_sealer *sealer)
{
	EVP_CIPHER_CTX_free(sealer->cipher);
	free(sealer);
}

size_t
raw_tls_seal(struct raw_tls_sealer *sealer, enum raw_tls_content kind, const void *content, size_t len,
	uint8_t *record)
{
	const size_t body = len + 1 + TAG_SIZE;
	const uint8_t header[RECORD_HEADER] = { RAW_TLS_DATA, 3, 3, (uint8_t)(body >> 8), (uint8_t)body };
	const uint8_t type = (uint8_t)kind;
	uint8_t nonce[IV_SIZE], *at = record + RECORD_HEADER;
	int n;

	memcpy(nonce, sealer->iv, IV_SIZE);
	for (unsigned i = 0; i < 8; i++)
		nonce[IV_SIZE - 1 - i] ^= (uint8_t)(sealer->seq >> (8 * i));
	sealer->seq++;
	memcpy(record, header, RECORD_HEADER);
	must(EVP_EncryptInit_ex(sealer->cipher, NULL, NULL, NULL, nonce) == 1 &&
		EVP_EncryptUpdate(sealer->cipher, NULL, &n, header, RECORD_HEADER) == 1);
	if (len) {
		must(EVP_EncryptUpdate(sealer->cipher, at, &n, content, (int)len) == 1);
		at += len;
	}
	must(EVP_EncryptUpdate(sealer->cipher, at, &n, &type, 1) == 1 &&
		EVP_EncryptFinal_ex(sealer->cipher, at + 1, &n) == 1 &&
		EVP_CIPHER_CTX_ctrl(sealer->cipher, EVP_CTRL_GCM_GET_TAG, TAG_SIZE, at + 1) == 1);
	return RECORD_HEADER + body;
}

size_t
raw_tls_seal_key_update(struct raw_tls_sealer *sealer, bool answer,
	uint8_t record[static RAW_TLS_KEY_UPDATE_SIZE])
{
	const uint8_t message[] = { 24, 0, 0, 1, answer };
	const size_t len = raw_tls_seal(sealer, RAW_TLS_HANDSHAKE, message, sizeof(message), record);

	expand(sealer->secret, "traffic upd", sealer->secret, SECRET_SIZE);
	use_secret(sealer);
	return len;
}
