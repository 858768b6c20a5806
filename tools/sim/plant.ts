/**
 * Changes one marked place of compiled code. It needs acorn, which is there in a checkout and not in the package. A marker is a comment in the source, `// @plant NAME`, before a statement, a
 * property, a class member or an expression (`/* @plant NAME *\/`). Compiled code keeps comments, so a marker moves with its
 * code, and a bug survives every move and rename.
 *
 * 1. The marked node is the largest that begins after the comment, but never all of `a || b`, `a ?? b` or `a ? b : c`: before
 *    such an expression the comment marks its first operand.
 * 2. A template says what stands in its place. `$` is the node itself, and parts of it have names: `$test`, `$then`, `$else`,
 *    `$target`, `$key`, `$left`, `$right`, `$value`; `$callee` and `$1`, `$2`, ... are those of a call, also of the call that is
 *    the value. An empty template removes the node.
 */
import { type Comment, type Node, parse } from "acorn";

const MARKER = /^\s*@plant (.+?)\s*$/;
const OPERANDS = new Set(["LogicalExpression", "ConditionalExpression"]);

type AnyNode = Node & Record<string, unknown>;

/** The names of the places that are marked in a file. */
export function markedPlaces(code: string): string[] {
  return Array.from(code.matchAll(/@plant (.+?)\s*(?:\*\/|$)/gm), (match) => match[1] ?? "");
}

/** The code with its marked place as the template says. Throws if there is no such place, or the template does not fit it. */
export function plant(code: string, place: string, template: string): string {
  const comments: Comment[] = [];
  const program = parse(code, {
    ecmaVersion: "latest",
    sourceType: "module",
    onComment: comments,
  }) as unknown as AnyNode;
  const marker = comments.find(({ value }) => MARKER.exec(value)?.[1] === place);
  if (marker === undefined) throw new Error(`no place is marked "@plant ${place}"`);
  const node = nodeAfter(program, marker.end);
  if (node === null) throw new Error(`nothing follows "@plant ${place}"`);
  const parts = partsOf(node, code);
  const text = template.replaceAll(/\$(\w*)/g, (_, name: string) => {
    const part = parts.get(name);
    if (part === undefined) throw new Error(`a ${node.type} has no $${name}, at "@plant ${place}"`);
    return part;
  });
  return code.slice(0, node.start) + text + code.slice(node.end);
}

/** The node that a marker before it means (rule 1). */
function nodeAfter(program: AnyNode, end: number): AnyNode | null {
  let first = Number.POSITIVE_INFINITY;
  const starting: AnyNode[] = [];
  visit(program, (node) => {
    if (node.start < end || node.start > first || node.type === "Program") return;
    if (node.start < first) starting.length = 0;
    first = node.start;
    starting.push(node);
  });
  const [largest, ...inner] = starting.sort((a, b) => b.end - a.end);
  if (largest === undefined) return null;
  return OPERANDS.has(largest.type) ? (inner.find(({ type }) => !OPERANDS.has(type)) ?? largest) : largest;
}

function visit(node: AnyNode, onNode: (node: AnyNode) => void): void {
  onNode(node);
  for (const child of Object.values(node).flat())
    if (child !== null && typeof child === "object" && "type" in child) visit(child as AnyNode, onNode);
}

/** Texts of the node and of its named parts (rule 2). */
function partsOf(node: AnyNode, code: string): Map<string, string> {
  const parts = new Map([["", code.slice(node.start, node.end)]]);
  const put = (name: string, part: unknown): void => {
    if (part === null || part === undefined) return;
    const { start, end } = part as Node;
    parts.set(name, code.slice(start, end));
  };
  const value = valueOf(node);
  put("test", node["test"]);
  put("then", node["consequent"]);
  put("else", node["alternate"]);
  put("key", node["key"] ?? (node["declarations"] as AnyNode[] | undefined)?.[0]?.["id"]);
  put("value", value);
  for (const from of [node, value]) {
    if (from === null) continue;
    const assigned = (from["expression"] as AnyNode | undefined) ?? from;
    if (from.type !== "Property") put("left", assigned["left"]);
    put("right", assigned["right"]);
    put("callee", from["callee"]);
    for (const [i, argument] of ((from["arguments"] as unknown[] | undefined) ?? []).entries())
      put(String(i + 1), argument);
  }
  return parts;
}

function valueOf(node: AnyNode): AnyNode | null {
  const expression = (node["expression"] ?? node["argument"] ?? node["value"]) as AnyNode | undefined | null;
  if (expression?.type === "AssignmentExpression") return expression["right"] as AnyNode;
  const [declared] = (node["declarations"] as AnyNode[] | undefined) ?? [];
  return expression ?? (declared?.["init"] as AnyNode | undefined | null) ?? null;
}
