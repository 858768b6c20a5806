/**
 * Plants a bug at marked places of compiled code. A marker is a comment in the source, "@plant NAME", before a statement, a
 * property, a class member or an expression. The compiler keeps comments, so a marker moves with its code.
 *
 * 1. The marked node is the largest that begins after the comment, but never all of `a || b`, `a ?? b` or `a ? b : c`: before
 *    such an expression the comment marks its first operand.
 * 2. A template says what replaces the node. `$` is the node itself, and its parts have names: `$test`, `$then`, `$else`,
 *    `$key`, `$left`, `$right`, `$value`; `$callee` and `$1`, `$2`, ... belong to a call; `$object` is that of a member
 *    that is called, assigned or compared. They are also the parts of the node's value and of its test. An empty template
 *    removes the node.
 * 3. `$key@2` is a part of the bug's second place. So a template names nothing of the code, and a rename breaks no bug. A
 *    place with the template `$` stays as it is: it is marked for its parts.
 *
 * It needs acorn, which is there in a checkout and not in the package.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Comment, type Node, parse } from "acorn";

const MARKER = /^\s*@plant (.+?)\s*$/;
const OPERANDS = new Set(["LogicalExpression", "ConditionalExpression"]);

/** The files with marked places, by the name of the place. */
export type Places = ReadonlyMap<string, MarkedFile>;

export interface MarkedFile {
  readonly file: string;
  readonly code: string;
}

interface Change {
  readonly name: string;
  /** The template of the marked place, or one for each place. */
  readonly change: string | readonly string[];
}

type AnyNode = Node & Record<string, unknown>;

/** The names of the marked places in a file. */
export function markedPlaces(code: string): string[] {
  return Array.from(code.matchAll(/\/[/*] @plant (.+?)\s*(?:\*\/|$)/gm), (match) => match[1] ?? "");
}

/** The names of a bug's places: its own name, then the name with " 2", " 3", ... appended. */
export function placesOf({ name, change }: Change): string[] {
  return typeof change === "string" ? [name] : change.map((_, i) => (i === 0 ? name : `${name} ${i + 1}`));
}

/** All marked places in the compiled code of a folder. Throws if two have the same name. */
export async function findPlaces(folder: string): Promise<Places> {
  const places = new Map<string, MarkedFile>();
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith(".js")) continue;
    const file = join(entry.parentPath, entry.name);
    const code = await readFile(file, "utf8");
    for (const place of code.includes("@plant") ? markedPlaces(code) : []) {
      if (places.has(place)) throw new Error(`two places are marked "@plant ${place}"`);
      places.set(place, { file, code });
    }
  }
  return places;
}

/** The files that a bug changes, with their changed code. Throws if a place is missing or a template does not fit. */
export function plant(bug: Change, places: Places): Map<string, string> {
  const parsed = new Map<string, Parsed>();
  const marked = placesOf(bug).map((place) => {
    const found = places.get(place);
    if (found === undefined) throw new Error(`no place is marked "@plant ${place}"`);
    const tree = parsed.get(found.file) ?? parseCode(found.code);
    parsed.set(found.file, tree);
    const node = nodeMarked(tree, place);
    return { ...found, place, node, parts: partsOf(node, found.code) };
  });
  const templates = typeof bug.change === "string" ? [bug.change] : bug.change;
  const edits = marked.flatMap(({ file, code, place, node }, own) => {
    const template = templates[own] ?? "";
    const text = template.replaceAll(/\$(\w*)(?:@(\d+))?/g, (_, name: string, number?: string) => {
      const at = number === undefined ? marked[own] : marked[Number(number) - 1];
      const part = at?.parts.get(name);
      if (part !== undefined) return part;
      const why = at === undefined ? `there is no place ${number}` : `a ${at.node.type} has no $${name}`;
      throw new Error(`${why}, at "@plant ${place}"`);
    });
    return template === "$" ? [] : [{ file, code, text, start: node.start, end: node.end }];
  });
  const changed = new Map<string, string>();
  // From the end to the beginning, so that positions stay right.
  for (const { file, code, text, start, end } of edits.sort((a, b) => b.start - a.start)) {
    const before = changed.get(file) ?? code;
    changed.set(file, before.slice(0, start) + text + before.slice(end));
  }
  return changed;
}

interface Parsed {
  readonly program: AnyNode;
  readonly comments: readonly Comment[];
}

function parseCode(code: string): Parsed {
  const comments: Comment[] = [];
  const program = parse(code, { ecmaVersion: "latest", sourceType: "module", onComment: comments });
  return { program: program as unknown as AnyNode, comments };
}

/** The node that a marker marks (rule 1). */
function nodeMarked({ program, comments }: Parsed, place: string): AnyNode {
  const marker = comments.find(({ value }) => MARKER.exec(value)?.[1] === place);
  let first = Number.POSITIVE_INFINITY;
  const starting: AnyNode[] = [];
  visit(program, (node) => {
    if (marker === undefined || node.start < marker.end || node.start > first || node.type === "Program")
      return;
    if (node.start < first) starting.length = 0;
    first = node.start;
    starting.push(node);
  });
  const [largest, ...inner] = starting.sort((a, b) => b.end - a.end);
  if (largest === undefined) throw new Error(`nothing follows "@plant ${place}"`);
  return OPERANDS.has(largest.type) ? (inner.find(({ type }) => !OPERANDS.has(type)) ?? largest) : largest;
}

function visit(node: AnyNode, onNode: (node: AnyNode) => void): void {
  onNode(node);
  for (const child of Object.values(node).flat()) if (isNode(child)) visit(child, onNode);
}

function isNode(value: unknown): value is AnyNode {
  return value !== null && typeof value === "object" && "type" in value;
}

/**
 * The texts of the node and of its named parts (rule 2). The node's own parts take precedence over those of its value and its
 * test.
 */
function partsOf(node: AnyNode, code: string): Map<string, string> {
  const parts = new Map([["", code.slice(node.start, node.end)]]);
  const put = (name: string, part: unknown): void => {
    if (isNode(part) && !parts.has(name)) parts.set(name, code.slice(part.start, part.end));
  };
  const value = valueOf(node);
  put("key", node["key"] ?? (node["declarations"] as AnyNode[] | undefined)?.[0]?.["id"]);
  put("value", value);
  for (const outer of [node, value, node["test"]]) {
    if (!isNode(outer)) continue;
    const from = inside(outer);
    put("test", from["test"]);
    put("then", from["consequent"]);
    put("else", from["alternate"]);
    put("left", from["left"]);
    put("right", from["right"]);
    put("callee", from["callee"]);
    for (const member of [from["callee"], from["left"]])
      put("object", isNode(member) ? inside(member)["object"] : undefined);
    for (const [i, argument] of ((from["arguments"] as unknown[] | undefined) ?? []).entries())
      put(String(i + 1), argument);
  }
  return parts;
}

/** The expression of a statement or of an optional chain. */
function inside(node: AnyNode): AnyNode {
  return isNode(node["expression"]) ? inside(node["expression"]) : node;
}

function valueOf(node: AnyNode): AnyNode | null {
  const [declared] = (node["declarations"] as AnyNode[] | undefined) ?? [];
  const value = node["expression"] ?? node["argument"] ?? node["value"] ?? declared?.["init"];
  if (!isNode(value)) return null;
  return value.type === "AssignmentExpression" ? (value["right"] as AnyNode) : value;
}
