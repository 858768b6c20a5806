/**
 * Search terms of executions. An index stores the terms of each execution (`termsOf`), and every hit is compared with the head
 * (`fits`). So stale terms in an index, such as those of a former error, never give a wrong result.
 * A search returns the executions that all of its words match, and those that the whole text matches, since ids and tags can
 * contain spaces. A word matches an execution in these cases: the id begins with it; the hash of the definition begins with it
 * (at least 8 digits); it is the name of the workflow; it is the name or the value of a tag or both (`team=ops`); it is a word
 * of the error. Case is ignored, except in names of workflows and in ids, which are compared as given and in lower case.
 */
import { cutToBytes } from "../kernel/definition/names.ts";
import { type StoredHead, userTags } from "./store.ts";

/** The most bytes of a term in the index. `fits` compares the rest of a longer term. */
const TERM_BYTES_MAX = 64;
/** The most words of an error that are indexed. */
const ERROR_WORDS_MAX = 60;
const HASH_DIGITS = 8;
/**
 * The prefix of a term that is a hash. `OF_NAME` is that of a tag's name, `OF_VALUE` of a tag's value. Words of an error have
 * no prefix: they begin with a letter, a digit or _.
 */
const OF_HASH = "#";
const OF_NAME = "@";
const OF_VALUE = "=";
const HASH = /^[0-9a-f]{8,64}$/;

type Searched = Pick<StoredHead, "id" | "workflow" | "hash" | "tags" | "error">;

/** Returns the index terms of an execution: its hash, tags and error. Ids and workflows have indexes of their own. */
export function termsOf({ hash, tags, error }: Pick<Searched, "hash" | "tags" | "error">): string[] {
  // Most executions have neither tags nor an error, and all new ones are indexed.
  if (error === null && isEmpty(tags)) return [hashTerm(hash)];
  const terms = new Set([hashTerm(hash)]);
  for (const [name, value] of Object.entries(userTags({ tags }))) {
    terms.add(nameTerm(name));
    if (value !== "") terms.add(valueTerm(value));
  }
  for (const word of errorTerms(error)) terms.add(word);
  return [...terms];
}

function isEmpty(record: object): boolean {
  for (const _ in record) return false;
  return true;
}

/** Whether executions that start at about the same time usually share the term, so an index may store it once for a block. */
export function isBroad(term: string): boolean {
  return term.startsWith(OF_HASH) || term.startsWith(OF_NAME);
}

export function errorTerms(error: string | null): string[] {
  return error === null ? [] : [...wordsOf(error)].slice(0, ERROR_WORDS_MAX).map((word) => term(word));
}

export interface SearchWord {
  readonly text: string;
  /** An id that begins with one of these texts matches the word. */
  readonly ids: readonly string[];
  readonly workflow: string;
  readonly terms: readonly string[];
}

export function searchWords(q: string): SearchWord[] {
  return [...new Set(q.split(/\s+/).filter(Boolean))].map(searchWord);
}

/** Returns the whole search text as one word, for ids and tags with spaces; null if the text has no spaces. */
export function searchPhrase(q: string): SearchWord | null {
  const text = q.trim();
  return /\s/.test(text) ? searchWord(text) : null;
}

function searchWord(text: string): SearchWord {
  const lower = text.toLowerCase();
  const terms = [nameTerm(text), valueTerm(text)];
  // A word may have several =, because names and values of tags can contain it; each one is tried as the separator.
  for (let at = text.indexOf("="); at >= 0; at = text.indexOf("=", at + 1))
    terms.push(tagTerm(text.slice(0, at), text.slice(at + 1)));
  if (HASH.test(lower)) terms.push(hashTerm(lower));
  const [longest] = [...wordsOf(text)].sort((a, b) => b.length - a.length);
  if (longest !== undefined) terms.push(term(longest));
  return { text, ids: [...new Set([text, lower])], workflow: text, terms };
}

/** Makes the search word for a tag, for lists that are filtered by tags. */
export function tagWord(name: string, value: string | null): SearchWord {
  const text = value === null ? name : `${name}=${value}`;
  return { text, ids: [], workflow: "", terms: [tagTerm(name, value)] };
}

/** Whether a word of a search matches an execution. */
export function fits(head: Searched, { text, ids, workflow }: SearchWord): boolean {
  const lower = text.toLowerCase();
  if (ids.some((begin) => head.id.startsWith(begin)) || head.workflow === workflow) return true;
  if (HASH.test(lower) && head.hash.startsWith(lower)) return true;
  for (const [name, value] of Object.entries(head.tags))
    if ([name, value, `${name}=${value}`].some((tag) => tag !== "" && tag.toLowerCase() === lower))
      return true;
  if (head.error === null) return false;
  const wanted = wordsOf(text);
  const found = wordsOf(head.error);
  return wanted.size > 0 && [...wanted].every((word) => found.has(word));
}

/** Whether an execution has these tags; null as a value matches any value. */
export function hasTags(
  head: Pick<Searched, "tags">,
  tags: Readonly<Record<string, string | null>>,
): boolean {
  return Object.entries(tags).every(
    ([name, value]) => Object.hasOwn(head.tags, name) && (value === null || head.tags[name] === value),
  );
}

/** The words of a text: sequences of letters, digits and _. */
function wordsOf(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{M}\p{N}_]+/gu) ?? []);
}

function hashTerm(hash: string): string {
  return OF_HASH + hash.slice(0, HASH_DIGITS);
}

function nameTerm(name: string): string {
  return term(OF_NAME + name);
}

function valueTerm(value: string): string {
  return term(OF_VALUE + value);
}

/** Returns the term of a tag that matches the fewest executions: its value, or its name if any value is searched. */
function tagTerm(name: string, value: string | null): string {
  return value === null || value === "" ? nameTerm(name) : valueTerm(value);
}

/** Normalizes a term. The result has no control characters, so it cannot contain NUL or a store's separator. */
function term(text: string): string {
  return cutToBytes(
    text
      .toLowerCase()
      .toWellFormed()
      .replace(/[\p{Cc}]/gu, " "),
    TERM_BYTES_MAX,
  );
}
