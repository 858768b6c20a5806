/**
 * Renders a Helm chart, as far as ours goes: the part of Go's templates that it uses (if, else, range, define, include,
 * pipelines, parentheses) and a dozen functions. What it does not know it refuses, so a chart cannot go beyond what is
 * checked without being noticed.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, parseAllDocuments, stringify } from "yaml";

type Value = unknown;
type Tree = { readonly [key: string]: Value };
type Token = { readonly text: string } | { readonly action: string };

type Node =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "value"; readonly expression: string }
  | {
      readonly kind: "if" | "range";
      readonly expression: string;
      readonly body: Node[];
      readonly other: Node[];
    };

/** The objects that a chart makes with these values over its own, by file. */
export function renderChart(
  folder: string,
  over: Tree = {},
): { files: Record<string, string>; objects: Tree[] } {
  const values = merge(parse(readFileSync(join(folder, "values.yaml"), "utf8")) as Tree, over);
  const chart = parse(readFileSync(join(folder, "Chart.yaml"), "utf8")) as {
    name: string;
    appVersion: string;
  };
  const names = readdirSync(join(folder, "templates")).toSorted();
  const read = (name: string): string => readFileSync(join(folder, "templates", name), "utf8");
  const renderer = new Renderer(names.filter((name) => name.startsWith("_")).map(read));
  const scope = {
    Values: values,
    Chart: { Name: chart.name, AppVersion: chart.appVersion },
    Release: { Name: "rondo", Namespace: "flows", Service: "Helm" },
  };
  const files = Object.fromEntries(
    names.filter((name) => !name.startsWith("_")).map((name) => [name, renderer.render(read(name), scope)]),
  );
  const objects = Object.entries(files)
    .filter(([name]) => name.endsWith(".yaml"))
    .flatMap(([name, text]) =>
      parseAllDocuments(text).flatMap((document) => {
        if (document.errors.length > 0) throw new Error(`${name}: ${document.errors[0]?.message}\n${text}`);
        return document.contents === null ? [] : [document.toJS() as Tree];
      }),
    );
  return { files, objects };
}

class Renderer {
  readonly #defined = new Map<string, Node[]>();

  constructor(helpers: readonly string[]) {
    for (const text of helpers)
      for (const [, name = "", body = ""] of text.matchAll(
        /\{\{-? define "([\w.]+)" -?\}\}([\s\S]*?)\{\{-? end -?\}\}(?=\s*(?:\{\{-? define|$))/g,
      ))
        this.#defined.set(name, parseNodes(tokensOf(body.trim())));
  }

  render(text: string, scope: Value): string {
    return this.#nodes(parseNodes(tokensOf(text)), scope);
  }

  #nodes(nodes: readonly Node[], scope: Value): string {
    return nodes.map((node) => this.#node(node, scope)).join("");
  }

  #node(node: Node, scope: Value): string {
    if (node.kind === "text") return node.text;
    const value = this.#evaluate(node.expression, scope);
    if (node.kind === "value") return show(value);
    if (node.kind === "range") return (value as Value[]).map((one) => this.#nodes(node.body, one)).join("");
    return this.#nodes(isTrue(value) ? node.body : node.other, scope);
  }

  #evaluate(expression: string, scope: Value): Value {
    const words = expression.match(/"(?:\\.|[^"\\])*"|[()|]|[^\s()|]+/g) ?? [];
    const pipeline = (): Value => {
      let value = call([]);
      while (words[0] === "|") {
        words.shift();
        value = call([value]);
      }
      return value;
    };
    const call = (last: Value[]): Value => {
      const head = words[0] ?? "";
      if (!/^[a-zA-Z]/.test(head)) return term();
      words.shift();
      const given: Value[] = [];
      while (words.length > 0 && words[0] !== "|" && words[0] !== ")") given.push(term());
      return this.#call(head, [...given, ...last]);
    };
    const term = (): Value => {
      const word = words.shift() ?? "";
      if (word === "(") {
        const value = pipeline();
        words.shift();
        return value;
      }
      if (word.startsWith('"')) return JSON.parse(word);
      if (/^\d+$/.test(word)) return Number(word);
      if (word === ".") return scope;
      if (word.startsWith(".")) return pathOf(scope, word.slice(1).split("."));
      throw new Error(`not known here: ${word} in ${expression}`);
    };
    return pipeline();
  }

  #call(name: string, given: readonly Value[]): Value {
    const [a, b] = given;
    switch (name) {
      case "include": {
        const body = this.#defined.get(a as string);
        if (body === undefined) throw new Error(`no definition of ${String(a)}`);
        return this.#nodes(body, b);
      }
      case "quote":
        return JSON.stringify(show(a));
      case "default":
        return isTrue(b) ? b : a;
      case "required":
        if (!isTrue(b)) throw new Error(String(a));
        return b;
      case "toYaml":
        return stringify(a).trimEnd();
      case "toJson":
        return JSON.stringify(a);
      case "nindent":
        return `\n${show(b).replaceAll(/^(?=.)/gm, " ".repeat(a as number))}`;
      case "printf":
        // Helm's numbers are floats, which %d does not take.
        return given.slice(1).reduce<string>((text, one) => text.replace(/%s/, () => show(one)), a as string);
      case "list":
        return [...given];
      case "concat":
        return (given as Value[][]).flat();
      case "dict":
        return Object.fromEntries(given.flatMap((key, i) => (i % 2 === 0 ? [[key, given[i + 1]]] : [])));
      case "merge":
        return { ...(b as Tree), ...(a as Tree) };
      case "not":
        return !isTrue(a);
      case "and":
        return given.find((one) => !isTrue(one)) ?? given.at(-1);
      default:
        throw new Error(`the function ${name} is not known here`);
    }
  }
}

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  let from = 0;
  let trims = false;
  const push = (piece: string): void => {
    if (piece !== "") tokens.push({ text: piece });
  };
  for (const match of text.matchAll(/\{\{(-?)\s+(.*?)\s+(-?)\}\}/g)) {
    let piece = text.slice(from, match.index);
    if (trims) piece = piece.trimStart();
    push(match[1] === "-" ? piece.trimEnd() : piece);
    tokens.push({ action: match[2] as string });
    trims = match[3] === "-";
    from = match.index + match[0].length;
  }
  push(trims ? text.slice(from).trimStart() : text.slice(from));
  return tokens;
}

function parseNodes(tokens: Token[]): Node[] {
  const nodes: Node[] = [];
  for (;;) {
    const token = tokens.shift();
    if (token === undefined) return nodes;
    if ("text" in token) {
      nodes.push({ kind: "text", text: token.text });
      continue;
    }
    const { action } = token;
    if (action === "end" || action === "else") {
      tokens.unshift(token);
      return nodes;
    }
    const block = /^(if|range) (.+)$/.exec(action);
    if (block === null) {
      nodes.push({ kind: "value", expression: action });
      continue;
    }
    const body = parseNodes(tokens);
    const stop = tokens.shift();
    const hasElse = stop !== undefined && "action" in stop && stop.action === "else";
    const other = hasElse ? parseNodes(tokens) : [];
    if (hasElse) tokens.shift();
    else if (stop === undefined) throw new Error(`no end of ${action}`);
    nodes.push({ kind: block[1] as "if" | "range", expression: block[2] as string, body, other });
  }
}

function pathOf(scope: Value, path: readonly string[]): Value {
  return path.reduce<Value>((value, key) => {
    if (typeof value !== "object" || value === null || !(key in value))
      throw new Error(`there is no .${path.join(".")}`);
    return (value as Tree)[key];
  }, scope);
}

function isTrue(value: Value): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return value !== undefined && value !== null && value !== false && value !== "" && value !== 0;
}

function show(value: Value): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function merge(base: Tree, over: Tree): Tree {
  const merged: Record<string, Value> = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const old = base[key];
    const isDeep = [old, value].every(
      (one) => typeof one === "object" && one !== null && !Array.isArray(one),
    );
    merged[key] = isDeep ? merge(old as Tree, value as Tree) : value;
  }
  return merged;
}
