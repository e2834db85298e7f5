/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * credentials.c -- the credentials of a side of a connection, and those that it accepts from its peer
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/wire/credentials.h"
#include "softrdma/wire/tls.h"

#define VARIABLES 4

enum variable { CERT, KEY, CA, PSK };

/* the variables when they were last read, and the credentials made from them */
static struct {
	pthread_mutex_t lock;
	char *paths[VARIABLES];
	struct softrdma_credentials *credentials; /* NULL: none are configured, or they could not be read */
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* a child reads the files again, because OpenSSL's objects contain locks */
void
softrdma_credentials_after_fork(void)
{
	softrdma_fork_keep(known.credentials);
	known.credentials = NULL;
	for (int i = 0; i < VARIABLES; i++) {
		softrdma_fork_keep(known.paths[i]);
		known.paths[i] = NULL;
	}
	known.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* 0 or an errno value: a user who can read a secret can impersonate this machine */
static int
check_secret(FILE *file, const char *path)
{
	struct stat st;
	if (fstat(fileno(file), &st) != 0)
		return errno;
	if (!(st.st_mode & S_IRWXO))
		return 0;
	SOFTRDMA_LOG(ERROR,
		"TLS: %s is a secret, and everybody may use it: take the rights of others away (chmod o=)",
		path);
	return EACCES;
}

/* opens a file with a secret and checks its mode; NULL with *error */
static FILE *
open_secret(const char *path, int *error)
{
	FILE *file = fopen(path, "re");
	if (file == NULL) {
		*error = errno;
		SOFTRDMA_LOG(ERROR, "TLS: %s cannot be read: %s", path, strerror(*error));
		return NULL;
	}
	*error = check_secret(file, path);
	if (*error) {
		fclose(file);
		return NULL;
	}
	return file;
}

/* --- pre-shared keys --- */

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* parses "identity:key", with the key in hexadecimal digits; false: the line is not of this form */
static bool
parse_psk(char *line, struct softrdma_tls_psk *psk)
{
	char *colon = strchr(line, ':');
	if (colon == NULL || colon == line || colon - line > SOFTRDMA_TLS_IDENTITY_MAX)
		return false;
	memcpy(psk->identity, line, (size_t)(colon - line));
	psk->identity[colon - line] = '\0';
	const char *digit = colon + 1;
	for (psk->len = 0; psk->len < SOFTRDMA_TLS_PSK_MAX; psk->len++, digit += 2) {
		int high = hex_digit(digit[0]);
		int low = high < 0 ? -1 : hex_digit(digit[1]);
		if (low < 0)
			break;
		psk->key[psk->len] = (uint8_t)(high << 4 | low);
	}
	return digit[strspn(digit, "\r\n")] == '\0' && psk->len >= SOFTRDMA_TLS_PSK_MIN;
}

static int
read_psk(const char *path, struct softrdma_tls_psk *psk)
{
	/* one byte more than the longest line, so that a line that is too long is noticed */
	char line[SOFTRDMA_TLS_IDENTITY_MAX + 1 + 2 * SOFTRDMA_TLS_PSK_MAX + 3] = "";
	int ret;
	FILE *file = open_secret(path, &ret);
	if (file == NULL)
		return ret;
	setvbuf(file, NULL, _IONBF, 0); /* no copy of the secret in a buffer that is freed */
	size_t len = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	if (memchr(line, '\0', len) != NULL || !parse_psk(line, psk)) {
		SOFTRDMA_LOG(ERROR,
			"TLS: %s is not one line identity:key, with a key of %u to %u bytes in hexadecimal digits",
			path, SOFTRDMA_TLS_PSK_MIN, SOFTRDMA_TLS_PSK_MAX);
		ret = EINVAL;
	}
	explicit_bzero(line, sizeof(line));
	return ret;
}

/* --- credentials --- */

/* makes credentials that own the context, if ret is 0; 0, ret or ENOMEM */
static int
new_credentials(int ret, struct softrdma_tls_context *context, struct softrdma_credentials **credentials)
{
	if (ret)
		return ret;
	struct softrdma_credentials *made = calloc(1, sizeof(*made));
	if (made == NULL) {
		softrdma_tls_context_delete(context);
		return ENOMEM;
	}
	atomic_init(&made->refs, 1);
	made->context = context;
	*credentials = made;
	return 0;
}

int
softrdma_credentials_new(const char *cert_file, const char *key_file, const char *ca_file,
	struct softrdma_credentials **credentials)
{
	struct softrdma_tls_context *context = NULL;
	int ret;
	FILE *key = open_secret(key_file, &ret);
	if (key == NULL)
		return ret;
	fclose(key);
	ret = softrdma_tls_context_of_files(cert_file, key_file, ca_file, &context);
	return new_credentials(ret, context, credentials);
}

static int
credentials_of_psk(const char *path, struct softrdma_credentials **credentials)
{
	struct softrdma_tls_psk psk = { .len = 0 };
	struct softrdma_tls_context *context = NULL;
	int ret = read_psk(path, &psk);
	if (ret == 0)
		ret = softrdma_tls_context_of_psk(&psk, &context);
	explicit_bzero(&psk, sizeof(psk));
	return new_credentials(ret, context, credentials);
}

struct softrdma_credentials *
softrdma_credentials_get(struct softrdma_credentials *credentials)
{
	if (credentials)
		atomic_fetch_add(&credentials->refs, 1);
	return credentials;
}

void
softrdma_credentials_put(struct softrdma_credentials *credentials)
{
	if (credentials == NULL || atomic_fetch_sub(&credentials->refs, 1) > 1)
		return;
	softrdma_tls_context_delete(credentials->context);
	free(credentials);
}

/* --- the environment --- */

static bool
same(const char *left, const char *right)
{
	return left && right ? strcmp(left, right) == 0 : left == right;
}

/* checks that the variables that are set fit together and are complete; 0 or an errno value */
static int
check_variables(const char *const paths[static VARIABLES])
{
	static const char *const names[] = {
		[CERT] = "SOFTRDMA_TLS_CERT",
		[KEY] = "SOFTRDMA_TLS_KEY",
		[CA] = "SOFTRDMA_TLS_CA",
	};
	const char *present = NULL, *missing = NULL; /* of the three for certificates */
	for (int i = CERT; i <= CA; i++) {
		if (paths[i])
			present = names[i];
		else
			missing = names[i];
	}
	if (present && paths[PSK]) {
		SOFTRDMA_LOG(ERROR,
			"TLS: both %s and SOFTRDMA_TLS_PSK are set: use either certificates or a pre-shared key",
			present);
		return EINVAL;
	}
	if (present && missing) {
		SOFTRDMA_LOG(ERROR,
			"TLS: %s is not set, but %s is: set SOFTRDMA_TLS_CERT, SOFTRDMA_TLS_KEY and "
			"SOFTRDMA_TLS_CA, or none of them",
			missing, present);
		return EINVAL;
	}
	return 0;
}

static bool
keep_copy(char **copy, const char *text)
{
	size_t size = strlen(text) + 1;
	*copy = malloc(size);
	if (*copy)
		memcpy(*copy, text, size);
	return *copy != NULL;
}

/* the caller holds the lock, and known is empty; 0 or an errno value */
static int
read_files(const char *const paths[static VARIABLES])
{
	int ret = check_variables(paths);
	if (ret)
		return ret;
	for (int i = 0; i < VARIABLES; i++) {
		if (paths[i] && !keep_copy(&known.paths[i], paths[i]))
			return ENOMEM;
	}
	if (paths[PSK])
		return credentials_of_psk(paths[PSK], &known.credentials);
	if (paths[CERT])
		return softrdma_credentials_new(paths[CERT], paths[KEY], paths[CA], &known.credentials);
	return 0;
}

static void
forget(void)
{
	softrdma_credentials_put(known.credentials);
	known.credentials = NULL;
	for (int i = 0; i < VARIABLES; i++) {
		free(known.paths[i]);
		known.paths[i] = NULL;
	}
}

int
softrdma_credentials_of_environment(struct softrdma_credentials **credentials)
{
	const char *paths[VARIABLES] = {
		[CERT] = secure_getenv("SOFTRDMA_TLS_CERT"),
		[KEY] = secure_getenv("SOFTRDMA_TLS_KEY"),
		[CA] = secure_getenv("SOFTRDMA_TLS_CA"),
		[PSK] = secure_getenv("SOFTRDMA_TLS_PSK"),
	};
	int ret = 0;
	bool unchanged = true;
	pthread_mutex_lock(&known.lock);
	for (int i = 0; i < VARIABLES; i++) {
		if (paths[i] && *paths[i] == '\0')
			paths[i] = NULL;
		unchanged = unchanged && same(paths[i], known.paths[i]);
	}
	if (!unchanged) {
		forget();
		ret = read_files(paths);
		if (ret)
			forget(); /* so that the next call tries again */
	}
	*credentials = softrdma_credentials_get(known.credentials);
	pthread_mutex_unlock(&known.lock);
	return ret;
}
