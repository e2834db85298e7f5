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
#include "softrdma/base/high_fd.h"
#include "softrdma/base/variables.h"
#include "softrdma/wire/credentials.h"
#include "softrdma/wire/tls.h"

#define VARIABLES 4

enum variable { CERT, KEY, CA, PSK };

/* files that cannot be used are tried again after this time, in ns, or when one of them changes */
#define TRY_AGAIN_NS UINT64_C(10000000000)

/* a file when it was last looked at; after each change of its content or its mode the stamp is another one */
struct stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

/* the files that the environment names */
struct softrdma_credential_files {
	char *paths[VARIABLES]; /* NULL: the variable is not set */
	struct stamp stamps[VARIABLES];
	uint64_t try_again_ns; /* 0: what the files had when they were last read is in use */
};

/* the credentials of the variables as they were last seen */
static struct {
	pthread_mutex_t lock;
	struct softrdma_credentials *credentials; /* NULL: none are configured, or they could not be read */
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* a child reads the files again, because OpenSSL's objects contain locks */
static void
after_fork(void)
{
	softrdma_fork_keep(known.credentials);
	known.credentials = NULL;
	known.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* 0 or an errno value: a user who can read a secret can impersonate this machine */
static int
check_secret(FILE *file, const char *path)
{
	struct stat st;
	if (fstat(fileno(file), &st) != 0)
		return errno;
	if (!(st.st_mode & S_IRWXO))
		return 0;
	/* message(tls): users other than owner and group have rights to a key -> `chmod o= FILE` */
	SOFTRDMA_LOG(ERROR,
		"TLS: %s is a secret, and everybody may use it: take the rights of others away (chmod o=)",
		path);
	return EACCES;
}

/* opens a file with a secret and checks its mode; NULL with *error */
static FILE *
open_secret(const char *path, int *error)
{
	FILE *file = softrdma_high_stream(fopen(path, "re"));
	if (file == NULL) {
		*error = errno;
		/*
		 * message(tls, unreadable-credentials): a file does not exist, may not be read, holds
		 * something else, or its key has a passphrase or belongs to another certificate -> Correct
		 * the path in the variable. The files are in PEM, the key without a passphrase.
		 */
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
		/*
		 * message(tls): the file of `SOFTRDMA_TLS_PSK` -> Make it with `echo "cluster:$(openssl
		 * rand -hex 32)"`.
		 */
		SOFTRDMA_LOG(ERROR,
			"TLS: %s is not one line identity:key, with a key of %u to %u bytes in hexadecimal digits",
			path, SOFTRDMA_TLS_PSK_MIN, SOFTRDMA_TLS_PSK_MAX);
		ret = EINVAL;
	}
	explicit_bzero(line, sizeof(line));
	return ret;
}

/* --- credentials --- */

static int
context_of_files(const char *cert_file, const char *key_file, const char *ca_file,
	struct softrdma_tls_context **context)
{
	int ret;
	FILE *key = open_secret(key_file, &ret);
	if (key == NULL)
		return ret;
	fclose(key);
	return softrdma_tls_context_of_files(cert_file, key_file, ca_file, context);
}

static int
context_of_psk(const char *path, struct softrdma_tls_context **context)
{
	struct softrdma_tls_psk psk = { .len = 0 };
	int ret = read_psk(path, &psk);
	if (ret == 0)
		ret = softrdma_tls_context_of_psk(&psk, context);
	explicit_bzero(&psk, sizeof(psk));
	return ret;
}

/* makes credentials that own the context and the files; NULL: no memory */
static struct softrdma_credentials *
new_credentials(struct softrdma_tls_context *context, struct softrdma_credential_files *files)
{
	struct softrdma_credentials *credentials = calloc(1, sizeof(*credentials));
	if (credentials == NULL)
		return NULL;
	atomic_init(&credentials->refs, 1);
	pthread_mutex_init(&credentials->lock, NULL);
	credentials->context = context;
	credentials->files = files;
	return credentials;
}

/* the caller holds the lock of the credentials; connections that use the old context keep it */
static void
set_context(struct softrdma_credentials *credentials, struct softrdma_tls_context *context)
{
	softrdma_tls_context_delete(credentials->context);
	credentials->context = context;
}

int
softrdma_credentials_load(const char *cert_file, const char *key_file, const char *ca_file,
	struct softrdma_credentials **credentials)
{
	struct softrdma_tls_context *context = NULL;
	int ret = context_of_files(cert_file, key_file, ca_file, &context);
	if (ret)
		return ret;
	if (*credentials) {
		pthread_mutex_lock(&(*credentials)->lock);
		set_context(*credentials, context);
		pthread_mutex_unlock(&(*credentials)->lock);
		return 0;
	}
	struct softrdma_credentials *made = new_credentials(context, NULL);
	if (made == NULL) {
		softrdma_tls_context_delete(context);
		return ENOMEM;
	}
	*credentials = made;
	return 0;
}

struct softrdma_credentials *
softrdma_credentials_get(struct softrdma_credentials *credentials)
{
	if (credentials)
		atomic_fetch_add(&credentials->refs, 1);
	return credentials;
}

static void
delete_files(struct softrdma_credential_files *files)
{
	if (files == NULL)
		return;
	for (int i = 0; i < VARIABLES; i++)
		free(files->paths[i]);
	free(files);
}

void
softrdma_credentials_put(struct softrdma_credentials *credentials)
{
	if (credentials == NULL || atomic_fetch_sub(&credentials->refs, 1) > 1)
		return;
	softrdma_tls_context_delete(credentials->context);
	delete_files(credentials->files);
	pthread_mutex_destroy(&credentials->lock);
	free(credentials);
}

/* --- files that change --- */

/* true if the file is another one than the stamp says; a file that is not there counts as unchanged */
static bool
update_stamp(const char *path, struct stamp *stamp)
{
	struct stat st;
	if (path == NULL || stat(path, &st) != 0)
		return false;
	const struct stamp now = { .dev = st.st_dev,
		.ino = st.st_ino,
		.size = st.st_size,
		.changed = st.st_ctim };
	bool same = now.dev == stamp->dev && now.ino == stamp->ino && now.size == stamp->size &&
		now.changed.tv_sec == stamp->changed.tv_sec && now.changed.tv_nsec == stamp->changed.tv_nsec;
	*stamp = now;
	return !same;
}

/* 0, or an errno value; a log line gives the reason */
static int
read_files(struct softrdma_credential_files *files, struct softrdma_tls_context **context)
{
	/* before the files are read: a change in between is seen at the next look */
	for (int i = 0; i < VARIABLES; i++)
		update_stamp(files->paths[i], &files->stamps[i]);
	if (files->paths[PSK])
		return context_of_psk(files->paths[PSK], context);
	return context_of_files(files->paths[CERT], files->paths[KEY], files->paths[CA], context);
}

/*
 * Reads the files again if one of them has changed. A certificate and its key are two files, so for a moment
 * they may not belong together: until all files can be used, what was read before stays. The caller holds the
 * lock of the credentials.
 */
static void
follow_files(struct softrdma_credentials *credentials)
{
	static struct softrdma_log_limit bad = SOFTRDMA_LOG_LIMIT, good = SOFTRDMA_LOG_LIMIT;
	struct softrdma_credential_files *files = credentials->files;
	if (files == NULL)
		return;
	bool changed = files->try_again_ns && softrdma_now_ns() >= files->try_again_ns;
	for (int i = 0; i < VARIABLES; i++)
		changed = update_stamp(files->paths[i], &files->stamps[i]) || changed;
	if (!changed)
		return;
	struct softrdma_tls_context *context = NULL;
	if (read_files(files, &context)) {
		files->try_again_ns = softrdma_now_ns() + TRY_AGAIN_NS;
		/*
		 * message(tls): a certificate or key was renewed, and the new files cannot be used; the
		 * line before says why -> Correct the files; they are tried again after ten seconds.
		 * Connections use the old ones meanwhile.
		 */
		SOFTRDMA_LOG_FEW(&bad, WARNING,
			"TLS: files have changed and cannot be used: new connections use what was read before");
		return;
	}
	files->try_again_ns = 0;
	set_context(credentials, context);
	SOFTRDMA_LOG_FEW(&good, NOTICE, "TLS: files have changed: new connections use what is in them now");
}

int
softrdma_credentials_start_tls(struct softrdma_credentials *credentials, int fd, bool active,
	struct softrdma_tls **tls)
{
	pthread_mutex_lock(&credentials->lock);
	follow_files(credentials);
	int ret = softrdma_tls_new(credentials->context, fd, active, tls);
	pthread_mutex_unlock(&credentials->lock);
	return ret;
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
		/* message(tls): both kinds are configured -> Unset one kind. */
		SOFTRDMA_LOG(ERROR,
			"TLS: both %s and SOFTRDMA_TLS_PSK are set: use either certificates or a pre-shared key",
			present);
		return EINVAL;
	}
	if (present && missing) {
		/* message(tls): one or two of the three are set -> Set the missing one. */
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

/* makes credentials of the files; 0 or an errno value */
static int
credentials_of(const char *const paths[static VARIABLES], struct softrdma_credentials **credentials)
{
	struct softrdma_credential_files *files = calloc(1, sizeof(*files));
	if (files == NULL)
		return ENOMEM;
	int ret = ENOMEM;
	for (int i = 0; i < VARIABLES; i++) {
		if (paths[i] && !keep_copy(&files->paths[i], paths[i]))
			goto err_delete_files;
	}
	struct softrdma_tls_context *context = NULL;
	ret = read_files(files, &context);
	if (ret)
		goto err_delete_files;
	*credentials = new_credentials(context, files);
	if (*credentials)
		return 0;
	ret = ENOMEM;
	softrdma_tls_context_delete(context);
err_delete_files:
	delete_files(files);
	return ret;
}

/* true if the known credentials, or the lack of them, are those of the variables */
static bool
are_known(const char *const paths[static VARIABLES])
{
	for (int i = 0; i < VARIABLES; i++) {
		if (!same(paths[i], known.credentials ? known.credentials->files->paths[i] : NULL))
			return false;
	}
	return true;
}

int
softrdma_credentials_of_environment(struct softrdma_credentials **credentials)
{
	const char *paths[VARIABLES] = {
		[CERT] = softrdma_variable("SOFTRDMA_TLS_CERT"),
		[KEY] = softrdma_variable("SOFTRDMA_TLS_KEY"),
		[CA] = softrdma_variable("SOFTRDMA_TLS_CA"),
		[PSK] = softrdma_variable("SOFTRDMA_TLS_PSK"),
	};
	int ret = 0;
	bool any = false;
	for (int i = 0; i < VARIABLES; i++)
		any = any || paths[i];
	pthread_mutex_lock(&known.lock);
	if (!are_known(paths)) {
		softrdma_credentials_put(known.credentials);
		known.credentials = NULL; /* if what follows fails, the next call tries again */
		ret = check_variables(paths);
		if (ret == 0 && any)
			ret = credentials_of(paths, &known.credentials);
	}
	*credentials = softrdma_credentials_get(known.credentials);
	pthread_mutex_unlock(&known.lock);
	return ret;
}
