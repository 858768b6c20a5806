#!/usr/bin/env node
/**
 * Draws comments and messages of two trees by a fixed seed, mixed, so that each can be read alone by somebody who does not
 * know which tree it is from:
 *
 *   node test/tools/draw-prose.mjs OLD NEW [--comments 100] [--messages 50] [--seed 1] [--key FILE]
 *
 * It prints a numbered list of as many of each tree. `--key` names a file for the solution: number, tree, file and line.
 */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    comments: { type: "string", default: "100" },
    messages: { type: "string", default: "50" },
    seed: { type: "string", default: "1" },
    key: { type: "string" },
  },
});
const [oldTree, newTree] = positionals;
if (newTree === undefined) throw new Error("usage: draw-prose.mjs OLD NEW: two commits or branches");

let state = Number(values.seed);
/** A linear congruential generator: the same seed draws the same texts. */
function random() {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
}

function shuffle(list) {
  for (let i = list.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [list[i], list[j]] = [list[j], list[i]];
  }
  return list;
}

function git(...args) {
  return execFileSync("git", args, { encoding: "utf8", maxBuffer: 1 << 28 });
}

/** Comments and messages of a tree's source, each with its place. */
function proseOf(tree) {
  const files = git("ls-tree", "-r", "--name-only", tree, "src")
    .split("\n")
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"));
  const comments = [];
  const messages = [];
  for (const file of files) {
    const text = git("show", `${tree}:${file}`);
    for (const { index, 0: found } of text.matchAll(/^[ \t]*(?:\/\*\*[\s\S]*?\*\/|(?:\/\/.*\n[ \t]*)+)/gm)) {
      const plain = found
        .replaceAll(/^[ \t]*(?:\/\*\*|\*\/|\*|\/\/)?[ \t]?|\*\/\s*$/gm, "")
        .replaceAll(/\s+/g, " ")
        .trim();
      if (/@plant|biome-ignore|oxlint/.test(plain) || plain.split(" ").length < 4) continue;
      comments.push({ tree, kind: "comment", file, line: lineOf(text, index), plain });
    }
    const code = text.replaceAll(/\/\*[\s\S]*?\*\/|^[ \t]*\/\/.*$/gm, (comment) =>
      comment.replaceAll(/[^\n]/g, " "),
    );
    for (const { index, 0: literal } of code.matchAll(/"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g)) {
      const plain = literal.slice(1, -1).replaceAll(/\s+/g, " ");
      if (isSentence(plain)) messages.push({ tree, kind: "message", file, line: lineOf(text, index), plain });
    }
  }
  return { comments, messages };
}

/** Whether a literal is prose: it has five words outside of its holes, and is neither SQL, code nor a list of fields. */
function isSentence(plain) {
  if (/\b(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|WHERE)\b|=>|;\s*$|[{}]\s*$/.test(plain)) return false;
  const words = plain.replaceAll(/\$\{[^}]*\}?/g, " ").split(/\s+/);
  return words.filter((word) => /^[("'`]*[A-Za-z][a-z'-]*[.,:;)"'`?]*$/.test(word)).length >= 5;
}

function lineOf(text, index) {
  return text.slice(0, index).split("\n").length;
}

const drawn = [];
for (const tree of [oldTree, newTree]) {
  const { comments, messages } = proseOf(tree);
  drawn.push(...shuffle(comments).slice(0, Number(values.comments)));
  drawn.push(...shuffle(messages).slice(0, Number(values.messages)));
}
shuffle(drawn);
for (const [i, { kind, plain }] of drawn.entries()) console.log(`${i + 1}. (${kind}) ${plain}`);
if (values.key !== undefined) {
  const lines = drawn.map(({ tree, file, line }, i) => `${i + 1}\t${tree}\t${file}:${line}`);
  writeFileSync(values.key, `${lines.join("\n")}\n`);
}
