/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * site-search.js <search.js> <search-index.js> <pages...> -- the index of the site has all pages, with text and with places
 * that exist, and the search finds them; for mujs(1)
 */

load(scriptArgs[0]);
load(scriptArgs[1]);
var files = scriptArgs.slice(2).map(function (path) { return path.replace(/^\.\//, ''); });
var failures = 0;

function expect(condition, what) {
	if (!condition) {
		print(what);
		failures++;
	}
}

function pagesFound(query) {
	return findSections(sitePages, query).map(function (section) { return section.page; });
}

var indexed = sitePages.map(function (page) { return page.page; });
files.forEach(function (file) {
	expect(file === 'index.html' || indexed.indexOf(file) >= 0, file + ' is not in the search index');
});
sitePages.forEach(function (page) {
	expect(files.indexOf(page.page) >= 0, 'the search index has ' + page.page + ', which is no page');
	var html = read(page.page), length = 0;
	page.sections.forEach(function (section) {
		length += section[2].length;
		expect(section[0] === '' || html.indexOf('id="' + section[0] + '"') >= 0,
			page.page + ' has no place ' + section[0]);
	});
	expect(length > 100, page.page + ' has no text in the search index');
	expect(pagesFound(page.title).indexOf(page.page) >= 0, page.page + ' is not found by its title, ' + page.title);
	/* a manual is the first result for its own name */
	var name = /^([a-z_-]+)\([137]\)$/.exec(page.title);
	expect(!name || pagesFound(name[1])[0] === page.page, page.title + ' is not the first result for its name');
});

expect(pagesFound('rpma_conn_next_event zyxwv').length === 0, 'found a word that is nowhere');
expect(pagesFound('Queue  DEPTH').length > 0, 'two words, in other cases, are not found');
expect(pagesFound('').length === 0, 'no words are found somewhere');
var text = new Array(100).join('before ') + 'needle' + new Array(100).join(' after');
expect(excerptOf(text, ['needle']).indexOf('needle') > 0, 'an excerpt is without the word');
expect(excerptOf(text, ['needle']).length < 300, 'an excerpt is too long');
print(sitePages.length + ' pages in the search index');
if (failures > 0)
	quit(1);
