/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * search.js -- finds words on all pages of the site, without a server
 *
 * search-index.js has the text of all pages; it is loaded when the reader first uses the search. A script can be loaded
 * from a file, too, where a browser refuses to fetch data.
 *
 * ECMAScript 5, so that a small interpreter can test findSections().
 */

var RESULTS_MAX = 30;
var EXCERPT_BEFORE = 60; /* characters */
var EXCERPT_LENGTH = 220;

/* A word in a title is worth more than one in a heading, and that more than one in the text; most of all the name of a manual. */
var NAME_WEIGHT = 100;
var TITLE_WEIGHT = 40;
var HEADING_WEIGHT = 12;
var OCCURRENCES_MAX = 8;

function wordsOf(query) {
	return query.toLowerCase().split(/[\s,;()]+/).filter(function (word) { return word !== ''; });
}

function isPartOfWord(character) {
	return /[a-z0-9_]/.test(character);
}

/* how often the word is in the text; one that stands alone counts twice. At most OCCURRENCES_MAX. */
function countIn(text, word) {
	var count = 0;
	for (var at = text.indexOf(word); at >= 0 && count < OCCURRENCES_MAX; at = text.indexOf(word, at + word.length)) {
		var alone = !isPartOfWord(text.charAt(at - 1)) && !isPartOfWord(text.charAt(at + word.length));
		count += alone ? 2 : 1;
	}
	return Math.min(count, OCCURRENCES_MAX);
}

/* What a section is worth to the query: 0 if one of the words is missing. Only the first section of a page stands for it. */
function scoreOf(words, title, heading, text, isFirst) {
	var score = 0;
	for (var i = 0; i < words.length; i++) {
		var worth = countIn(title, words[i]) * (isFirst ? TITLE_WEIGHT : 1) +
			countIn(heading, words[i]) * HEADING_WEIGHT + countIn(text, words[i]);
		if (worth === 0)
			return 0;
		score += worth;
		if (isFirst && title.indexOf(words[i] + '(') === 0)
			score += NAME_WEIGHT;
	}
	return score;
}

/* the sections of the pages that have all words of the query, the best first: { page, title, id, heading, text, score } */
function findSections(pages, query) {
	var words = wordsOf(query), found = [];
	pages.forEach(function (page) {
		page.sections.forEach(function (section, i) {
			var score = scoreOf(words, page.title.toLowerCase(), section[1].toLowerCase(), section[2].toLowerCase(),
				i === 0);
			if (score > 0)
				found.push({ page: page.page, title: page.title, id: section[0], heading: section[1],
					text: section[2], score: score, order: found.length });
		});
	});
	found.sort(function (a, b) { return b.score - a.score || a.order - b.order; });
	return found;
}

/* the part of a text that begins shortly before the first of the words */
function excerptOf(text, words) {
	var lower = text.toLowerCase(), first = text.length;
	words.forEach(function (word) {
		var at = lower.indexOf(word);
		if (at >= 0 && at < first)
			first = at;
	});
	var start = first === text.length ? 0 : Math.max(0, first - EXCERPT_BEFORE);
	if (start > 0)
		start = text.indexOf(' ', start) + 1;
	var end = Math.min(text.length, start + EXCERPT_LENGTH);
	if (end < text.length && text.lastIndexOf(' ', end) > first)
		end = text.lastIndexOf(' ', end);
	return (start > 0 ? '… ' : '') + text.slice(start, end) + (end < text.length ? ' …' : '');
}

/* appends the text to the element, with the words marked */
function appendMarked(element, text, words) {
	var lower = text.toLowerCase(), at = 0;
	while (at < text.length) {
		var next = text.length, length = 0;
		for (var i = 0; i < words.length; i++) {
			var found = lower.indexOf(words[i], at);
			if (found >= 0 && (found < next || (found === next && words[i].length > length))) {
				next = found;
				length = words[i].length;
			}
		}
		element.appendChild(document.createTextNode(text.slice(at, next)));
		if (length > 0)
			appendElement(element, 'mark', text.slice(next, next + length));
		at = next + length;
	}
}

function appendElement(parent, name, text) {
	var element = document.createElement(name);
	if (text)
		element.appendChild(document.createTextNode(text));
	parent.appendChild(element);
	return element;
}

function showResults(results, pages, query) {
	var words = wordsOf(query), found = words.length > 0 ? findSections(pages, query) : [];
	results.textContent = '';
	results.hidden = words.length === 0;
	appendElement(results, 'p', found.length === 0 ? 'No page has all of these words.' :
		found.length > RESULTS_MAX ? 'The first ' + RESULTS_MAX + ' of ' + found.length + ' places' :
		found.length === 1 ? '1 place' : found.length + ' places');
	var list = appendElement(results, 'ol');
	found.slice(0, RESULTS_MAX).forEach(function (section) {
		var item = appendElement(list, 'li'), link = appendElement(item, 'a');
		link.href = section.page + (section.id ? '#' + section.id : '');
		appendMarked(link, section.title + (section.heading ? ': ' + section.heading : ''), words);
		appendMarked(appendElement(item, 'p'), excerptOf(section.text, words), words);
	});
}

function startSearch() {
	var form = document.getElementById('search'), input = form.elements.q;
	var results = document.getElementById('results');
	var asked = false; /* for the index */

	function show() {
		if (window.sitePages)
			showResults(results, window.sitePages, input.value);
	}

	function loadIndex() {
		if (asked)
			return;
		asked = true;
		var script = document.createElement('script');
		script.src = 'search-index.js';
		script.onload = show;
		script.onerror = function () {
			results.textContent = 'search-index.js is missing: the site was copied without it.';
			results.hidden = false;
		};
		document.head.appendChild(script);
	}

	form.hidden = false;
	input.addEventListener('focus', loadIndex);
	input.addEventListener('input', function () {
		loadIndex();
		show();
	});
	form.addEventListener('submit', function (event) {
		var first = results.querySelector('a');
		event.preventDefault();
		if (first)
			window.location.href = first.href;
	});
	results.addEventListener('click', function (event) {
		/* a place on this page does not load it again */
		if (event.target.closest('a'))
			results.hidden = true;
	});
	document.addEventListener('keydown', function (event) {
		if (event.key === 'Escape') {
			input.value = '';
			results.hidden = true;
		} else if (event.key === '/' && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
			event.preventDefault();
			input.focus();
		}
	});

	var query = new URLSearchParams(window.location.search).get('q');
	if (query) {
		input.value = query;
		loadIndex();
	}
}

if (typeof document !== 'undefined')
	startSearch();
