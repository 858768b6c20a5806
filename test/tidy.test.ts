// The rules of the tree, executed. Each rule is a function from files to complaints ("file:line: what, and what to
// do instead"). It runs over the real tree, and over planted files that it must catch, so that no rule can rot.
// Sizes of functions, import cycles and promises are oxlint's part (.oxlintrc.json).
import { spawnSync } from "node:child_process";
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { basename, posix } from "node:path";
import { describe, expect, test } from "vitest";
import { PLANTED_BUGS } from "../tools/sim/bugs.ts";
import { markedPlaces, placesOf } from "../tools/sim/plant.ts";

interface TreeFile {
  readonly path: string;
  readonly text: string;
}
type Rule = (files: readonly TreeFile[]) => string[];

const BASE = ["std", "kernel", "protocol"];
const PORT = [
  "store/store.ts",
  "store/cluster-store.ts",
  "store/document-form.ts",
  "store/document-kinds.ts",
  "store/map-items.ts",
  "store/partition-of.ts",
  "store/read-events.ts",
  "store/remote-epoch.ts",
  "store/search-heads.ts",
];
/** The list of planted bugs. */
const BUGS = "tools/sim/bugs.ts";
const EDGES = ["broker", "cli", "server"];
/** Everything but the edges: what the composition and the tools name besides them. */
const INNER = [
  ...BASE,
  "store",
  "engine",
  "cluster",
  "worker",
  "commands",
  "rondo",
  "sdk",
  "client",
  "testing",
  "schedule",
  "triggers",
].concat(
  ["retention", "audit", "transfer", "config", "mcp", "net", "compose"],
  ["index.ts", "client.ts", "testing.ts", "package-root.ts"],
);
const ANYTHING = [...INNER, ...EDGES];

/**
 * What may import what: top folder or root file of src/ -> what it may name besides itself. "store/store.ts"
 * allows that file only, "type worker" allows `import type` only, "type server/schemas" that of one of its rooms. Tests are free.
 */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  std: [],
  kernel: ["std"],
  protocol: ["std", "kernel"],
  store: ["std", "kernel"],
  engine: [...BASE, ...PORT],
  net: ["std", "protocol"],
  cluster: [...BASE, ...PORT, "engine", "net"],
  worker: [...BASE, "net"],
  commands: [...BASE, ...PORT, "net", "type engine"],
  broker: [...BASE, ...PORT, "engine", "net", "type commands"],
  schedule: [...BASE, ...PORT],
  triggers: [...BASE, ...PORT, "engine"],
  audit: [...BASE, ...PORT],
  retention: ["std", ...PORT, "triggers"],
  transfer: [...BASE, ...PORT, "engine"],
  sdk: [...BASE, "type worker"],
  rondo: [...BASE, ...PORT, "engine", "worker", "sdk", "triggers"],
  testing: [
    ...BASE,
    "store",
    "engine",
    "cluster",
    "rondo",
    "commands",
    "triggers",
    "sdk/all-pages.ts",
    "sdk/stream-fold.ts",
  ].concat(["type worker", "type sdk", "type net"]),
  server: [...BASE, ...PORT, "engine", "worker", "commands", "schedule", "retention", "audit"].concat([
    "sdk",
    "mcp",
    "triggers",
    "net",
    "type cluster",
    "type rondo",
  ]),
  mcp: [...BASE, "sdk"],
  config: [...BASE, "net", "commands"],
  client: [...BASE, "sdk", "type server/schemas", "type worker"],
  cli: [...BASE, ...PORT, "client", "commands", "compose", "config", "mcp", "net", "sdk", "worker"].concat([
    "package-root.ts",
    "register-jiti.ts",
    "index.ts",
    "client.ts",
    "testing.ts",
    "type server/schemas",
  ]),
  compose: ANYTHING,
  "client.ts": [...BASE, "sdk", "client", "type worker"],
  "client-node.ts": ["client", "client.ts", "compose"],
  "react.ts": ["client", "sdk", "type kernel", "type std"],
  "react-peer.d.ts": [],
  "package-root.ts": ["std"],
  "index.ts": [...BASE, "compose", "rondo", "sdk", "type commands", "type worker"],
  "testing.ts": [...BASE, "store", "compose", "sdk", "testing", "type rondo", "type worker"],
  "register.ts": ["register-tsconfig.ts"],
  "register-hooks.ts": [],
  "register-tsconfig.ts": [],
  "register-jiti.ts": ["register-tsconfig.ts"],
  tools: ANYTHING,
};

/** Folders that run anywhere, and the few files in them that may use `node:` modules. */
const WITHOUT_NODE = ["std", "kernel", "sdk", "client"];
const NODE_ALLOWED = [
  // It imports types only, and looks the modules up at run time.
  "src/client/node-fetch.ts",
  "src/std/clock.ts",
  "src/std/compiled-file.ts",
  "src/std/hash.ts",
  "src/std/make-directory.ts",
  "src/std/random.ts",
];

/** A file follows its subject. Beyond this length it almost always has two; a reason is needed, in LONG_FILES. */
const LINES_MAX = 700;
const HEADER_FROM_LINES = 60;
/** Files that are better long, each with the reason. */
const LONG_FILES: Readonly<Record<string, string>> = {};

/** The most lines of each room of src/, without tests. A room grows on purpose: raise its number in the same commit (decision 120). */
const ROOM_LINES: Readonly<Record<string, number>> = {
  audit: 1_050,
  broker: 5_000,
  cli: 8_150,
  client: 1_950,
  cluster: 5_000,
  commands: 2_250,
  compose: 1_800,
  config: 750,
  engine: 14_850,
  kernel: 12_650,
  mcp: 720,
  net: 2_090,
  protocol: 2_350,
  retention: 350,
  rondo: 1_450,
  schedule: 1_830,
  sdk: 4_650,
  server: 19_700,
  std: 2_130,
  store: 14_450,
  testing: 1_730,
  transfer: 1_200,
  triggers: 600,
  worker: 12_350,
};

const CLOCK = "take `now` as an argument, or a clock from std/";
const RANDOM = "draw from a seeded source from std/";
const TIMER = "emit a timer as an effect, or use a clock from std/";
const BANNED: readonly (readonly [pattern: RegExp, name: string, instead: string])[] = [
  [/\bDate\.now\b/g, "Date.now", CLOCK],
  [/\bnew Date\(\s*\)|\bnew Date\b(?!\s*\()/g, "new Date()", CLOCK],
  [/\bperformance\.now\b/g, "performance.now", CLOCK],
  [/\bMath\.random\b/g, "Math.random", RANDOM],
  [
    /\bcrypto\.(?:random\w*|getRandomValues)\b|\brandom(?:UUID|Bytes|Int|FillSync)\b/g,
    "crypto.random*",
    RANDOM,
  ],
  [/\bset(?:Timeout|Interval|Immediate)\b/g, "setTimeout, setInterval, setImmediate", TIMER],
  [/\bprocess\.env\b/g, "process.env", "read it in cli/ and pass the value in"],
];
/** `std/` wraps these globals; the drivers and the loader of TypeScript are where the outside world begins. */
const MAY_USE_BANNED =
  /^src\/(?:std\/|register\.ts$|engine\/driver[^/]*\.ts$|worker\/|cli\/|store\/(?:sqlite|postgres)\/)|^tools\/(?:bench|demo)\/|\.test\.ts$/;

/** The folders of test/, by subject: test/README.md says what each holds. */
const TEST_FOLDERS = ["broker", "cli", "cluster", "conformance", "dashboard", "docs", "faults"].concat([
  "fixtures",
  "sdk",
  "server",
  "sim",
  "store",
  "tools",
  "workers",
]);

const VAGUE_NAMES = ["utils.ts", "helpers.ts", "common.ts", "types.ts", "interfaces.ts", "misc.ts"];
const KEBAB = /^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)*$/;

// Written in pieces, so that this file and a plain grep over the tree stay clean.
const LEFT_OVER = new RegExp(
  `\\b(?:it|test|describe|suite)(?:\\.\\w+)*\\.(?:only|skip|todo)\\b|\\b(?:TO${"DO"}|FIX${"ME"})\\b`,
  "g",
);
const MACHINE_PATH = new RegExp(`(?<![\\w.~})-])/(?:${["work", "root", "home"].join("|")})/`, "g");

const layers: Rule = (files) =>
  sources(files).flatMap((file) => {
    const own = layerOf(file.path);
    const allowed = LAYERS[own];
    if (allowed === undefined)
      return [`${file.path}: "${own}" is not in the table of layers (test/tidy.test.ts)`];
    return imports(file).flatMap(({ line, target, typeOnly }) => {
      const at = `${file.path}:${line}`;
      if (target.startsWith("node:")) {
        const free = !WITHOUT_NODE.includes(own) || NODE_ALLOWED.includes(file.path);
        return free ? [] : [`${at}: ${own}/ has no node: imports; pass it in, or put it behind std/`];
      }
      if (target.startsWith("tools/"))
        return own === "tools" || own === "cli"
          ? []
          : [`${at}: only the CLI and tools/ name tools/; what others need belongs into src/`];
      if (!target.startsWith("src/"))
        return own === "kernel" ? [`${at}: kernel/ imports no npm package`] : [];
      const layer = layerOf(target);
      if (layer === own) {
        const crosses =
          own === "store" && adapterOf(target) !== "" && adapterOf(target) !== adapterOf(file.path);
        return crosses ? [`${at}: a store adapter is named only by itself and by compose/`] : [];
      }
      const fits = allowed.some((entry) =>
        entry.startsWith("type ")
          ? typeOnly && (entry === `type ${layer}` || target.startsWith(`src/${entry.slice(5)}/`))
          : entry === layer || `src/${entry}` === target,
      );
      return fits
        ? []
        : [`${at}: ${own} may not import ${target.slice(4)}; it may: ${allowed.join(", ") || "nothing"}`];
    });
  });

const browserSafe: Rule = (files) => {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const seen = new Set(["src/client.ts", "src/react.ts"]);
  const complaints: string[] = [];
  for (const path of seen) {
    const file = byPath.get(path);
    if (file === undefined) continue;
    for (const { line, target, typeOnly } of imports(file)) {
      if (typeOnly) continue;
      if (target.startsWith("node:"))
        complaints.push(`${path}:${line}: reached from rondo/client, which runs in browsers`);
      else seen.add(target);
    }
  }
  return complaints;
};

const fileSize: Rule = (files) =>
  sources(files).flatMap(({ path, text }) => {
    const lines = lineCount(text);
    if (lines <= LINES_MAX || path in LONG_FILES) return [];
    return [`${path}: ${lines} lines, over ${LINES_MAX}; split it by reason to change`];
  });

const roomSize: Rule = (files) =>
  Object.entries(ROOM_LINES).flatMap(([room, max]) => {
    const own = sources(files).filter(({ path }) => path.startsWith(`src/${room}/`));
    const lines = own.reduce((sum, { text }) => sum + lineCount(text), 0);
    if (lines <= max) return [];
    const longest = own.reduce((a, b) => (lineCount(b.text) > lineCount(a.text) ? b : a));
    return [
      `src/${room}: ${lines} lines, over ${max} (its longest file is ${longest.path}); simplify, or raise ROOM_LINES`,
    ];
  });

const bannedGlobals: Rule = (files) =>
  files
    .filter(({ path }) => /^(?:src|tools)\/.*\.ts$/.test(path) && !MAY_USE_BANNED.test(path))
    .flatMap((file) => {
      const code = { path: file.path, text: blank(file.text, "comments and strings") };
      return BANNED.flatMap(([pattern, name, instead]) =>
        find(code, pattern, `${name} is not for here; ${instead}`),
      );
    });

const fileNames: Rule = (files) =>
  files
    .filter(({ path }) => /^(?:src|test|examples|scripts|bin|dashboard)\//.test(path))
    .flatMap(({ path }) => {
      const name = basename(path);
      if (VAGUE_NAMES.includes(name)) return [`${path}: name it after what it owns`];
      const odd = path.split("/").find((part) => part !== "README.md" && !KEBAB.test(part));
      return odd === undefined ? [] : [`${path}: "${odd}" is not kebab-case`];
    });

const testFolders: Rule = (files) =>
  files.flatMap(({ path }) => {
    const [root, top = "", ...rest] = path.split("/");
    if (/^(?:src|test)\/.*-bench\.ts$/.test(path))
      return [`${path}: a bench is a benchmark; call it *-fixture.ts, in test/fixtures/`];
    return root !== "test" || rest.length === 0 || TEST_FOLDERS.includes(top)
      ? []
      : [`${path}: test/${top} is not a folder of test/; it has ${TEST_FOLDERS.join(", ")}`];
  });

const testImports: Rule = (files) =>
  files
    .filter(({ path }) => /^(?:src|tools|test)\/.*\.(?:ts|mjs)$/.test(path))
    .flatMap((file) => {
      const own = file.path.startsWith("test/") ? testFolderOf(file.path) : null;
      return imports(file)
        .filter(({ target }) => target.startsWith("test/") && TEST_FOLDERS.includes(testFolderOf(target)))
        .filter(({ target }) => ![own, "fixtures"].includes(testFolderOf(target)))
        .map(
          ({ line, target }) =>
            `${file.path}:${line}: ${target} is for its own folder; move it to test/fixtures/`,
        );
    });

const headers: Rule = (files) =>
  sources(files).flatMap(({ path, text }) => {
    const bare = lineCount(text) > HEADER_FROM_LINES && !/^(?:#!.*\n)?\s*\/[/*]/.test(text);
    return bare ? [`${path}:1: over ${HEADER_FROM_LINES} lines and no header comment; say what it owns`] : [];
  });

const leftOvers: Rule = (files) =>
  files
    .filter(({ path }) => !path.endsWith(".md") && path !== "package-lock.json")
    .flatMap((file) => find(file, LEFT_OVER, "finish it or take it out"));

const machineTraces: Rule = (files) => {
  const hosts = [`registry.${"npmjs"}.org`, `registry.${"yarnpkg"}.com`];
  const own = /^https?:\/\/(?!localhost|127\.|\[)([^/]+)/.exec(process.env["npm_config_registry"] ?? "")?.[1];
  if (own !== undefined) hosts.push(own);
  const host = new RegExp(hosts.map((name) => name.replaceAll(".", "\\.")).join("|"), "g");
  return files.flatMap((file) => [
    ...find(file, MACHINE_PATH, "a path of one machine"),
    ...find(file, host, "the host of a package registry"),
  ]);
};

const lockFile: Rule = (files) =>
  files
    .filter(({ path }) => path === "package-lock.json")
    .flatMap(({ path, text }) => {
      const lock = JSON.parse(text) as {
        packages: Record<string, { hasInstallScript?: boolean; resolved?: string }>;
      };
      return Object.entries(lock.packages).flatMap(([name, { hasInstallScript, resolved }]) => [
        ...(hasInstallScript === true ? [`${path}: ${name || "rondo"} has an install script`] : []),
        ...(resolved?.startsWith("http") ? [`${path}: ${name} has a "resolved" address; see .npmrc`] : []),
      ]);
    });

/** A marker that is lost or misspelt is a bug that is not planted any more. */
const markers: Rule = (files) => {
  const missing = new Set(PLANTED_BUGS.flatMap(placesOf));
  const complaints = sources(files).flatMap(({ path, text }) =>
    markedPlaces(text).flatMap((place) =>
      missing.delete(place) ? [] : [`${path}: "@plant ${place}" is marked twice, or belongs to no bug`],
    ),
  );
  if (missing.size > 0 && files.some(({ path }) => path === BUGS))
    complaints.push(`${BUGS}: no place is marked "@plant ${[...missing].join('", "')}"`);
  return complaints;
};

/** Words of an earlier version in names and comments, and the words that took their place. */
const RENAMED: Readonly<Record<string, string>> = {
  desk: "queue, or the name of its class",
  door: "inputs",
  voice: "announcer",
  errand: "post-op",
  audience: "pending replies",
  heir: "ownership",
  mortal: "killable process",
  residency: "cache",
  parcel: "message of the token",
  letter: "mail, or message (a dead letter is a task that failed for good)",
};
const OLD_WORD = new RegExp(`^(?:${Object.keys(RENAMED).join("|")})s?$`);
/** Names that cannot change: fields of stored documents, of messages between nodes, and tables. */
const KEPT_NAMES = /^(?:parcels|letters?|letters_n|post_letters_\d+)$/;
/** Old words that no comment needs for anything else. A voice or a letter can be what it is elsewhere. */
const OLD_WORD_ANYWHERE = /\b(?:desk|errand|heir|mortal)s?\b/gi;
const words: Rule = (files) =>
  [...sources(files), ...files.filter(({ path }) => path.endsWith(".test.ts"))].flatMap(({ path, text }) => {
    const complaints: string[] = [];
    const check = (name: string, where: string): void => {
      const parts = wordsOf(name);
      parts.forEach((part, i) => {
        if (!OLD_WORD.test(part) || KEPT_NAMES.test(name)) return;
        if (part.startsWith("letter") && parts[i - 1] === "dead") return;
        const instead = RENAMED[part] ?? RENAMED[part.slice(0, -1)];
        complaints.push(`${where}: "${name}" has the word "${part}"; write ${instead}`);
      });
    };
    check(basename(path), path);
    const code = blank(text, "comments and strings");
    for (const { index, 1: name } of code.matchAll(
      /\b(?:class|interface|type|function|const|let|enum)\s+([A-Za-z_]\w*)/g,
    ))
      check(name as string, `${path}:${lineAt(text, index)}`);
    if (path !== "test/tidy.test.ts")
      for (const { index, 0: word } of text.matchAll(OLD_WORD_ANYWHERE))
        complaints.push(`${path}:${lineAt(text, index)}: "${word}" is a word of an earlier version`);
    return complaints;
  });

/** Lines under which a file with one importer beside it belongs into that importer. */
const CRUMB_LINES = 60;
/** Small files that are seams, each with the reason. A file with a test of its own is one without a reason. */
const SEAMS: Readonly<Record<string, string>> = {
  "src/cli/run-cli.ts": "tests run the CLI in their own process by it, without ending that process",
  "src/config/post-op-settings.ts": "loaded only when post-operations are configured",
  "src/server/route-table.ts": "the list of all routes",
  "src/server/services/schema-thread.ts": "the entry of a thread",
};

const crumbs: Rule = (files) => {
  const own = sources(files).filter(({ path }) => path.startsWith("src/"));
  const paths = new Set(files.map(({ path }) => path));
  const importers = new Map<string, Set<string>>();
  for (const file of own)
    for (const { target } of imports(file)) {
      const known = importers.get(target) ?? new Set();
      importers.set(target, known.add(file.path));
    }
  return own.flatMap(({ path, text }) => {
    const [by, ...others] = importers.get(path) ?? [];
    if (by === undefined || others.length > 0 || posix.dirname(by) !== posix.dirname(path)) return [];
    if (lineCount(text) >= CRUMB_LINES || path in SEAMS || paths.has(path.replace(/\.ts$/, ".test.ts")))
      return [];
    return [`${path}: ${lineCount(text)} lines, imported by ${basename(by)} alone; move it in there`];
  });
};

const MAP = "ARCHITECTURE.md";
const MAP_LINES_MAX = 150;

/** The map stays short, and names files that exist. */
const map: Rule = (files) => {
  const paths = new Set(files.map(({ path }) => path));
  return files
    .filter(({ path }) => path === MAP)
    .flatMap(({ text }) => {
      const lines = lineCount(text);
      const named = Array.from(
        text.matchAll(/`([\w./-]+\/[\w.-]+\.(?:ts|mjs|md))`/g),
        ([, name]) => name as string,
      );
      const missing = named.filter((name) => !paths.has(name) && !paths.has(`src/${name}`));
      return [
        ...(lines > MAP_LINES_MAX ? [`${MAP}: ${lines} lines, over ${MAP_LINES_MAX}`] : []),
        ...missing.map((name) => `${MAP}: there is no file ${name}`),
      ];
    });
};

/** Each noun of the glossary is a word of a file's or a class's name, so the glossary explains the code as it is. */
const glossary: Rule = (files) => {
  const names = sources(files).flatMap(({ path, text }) => [
    basename(path),
    ...Array.from(text.matchAll(/\b(?:class|interface|type) ([A-Z]\w*)/g), ([, name]) => name as string),
  ]);
  const used = new Set(names.flatMap(wordsOf));
  return files
    .filter(({ path }) => path === MAP)
    .flatMap(({ text }) => {
      const table = text.slice(text.indexOf("## Glossary"));
      const rows = Array.from(table.matchAll(/^\| (?!noun)([a-z-]+) \| [^|]+ \| ?([a-z-]*) ?\|/gm));
      const nouns = rows.flatMap(([, left, right]) => [left as string, right as string]).filter(Boolean);
      return nouns
        .filter((noun) => !wordsOf(noun).every((word) => used.has(word) || used.has(`${word}s`)))
        .map((noun) => `${MAP}: the glossary has "${noun}", which no file and no class is called after`);
    });
};

function wordsOf(name: string): string[] {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1-$2")
    .toLowerCase()
    .split(/[-_.#]/);
}

const ALL_RULES = {
  layers,
  browserSafe,
  fileSize,
  roomSize,
  bannedGlobals,
  fileNames,
  testFolders,
  testImports,
  headers,
  leftOvers,
  machineTraces,
  lockFile,
  markers,
  words,
  crumbs,
  map,
  glossary,
} satisfies Record<string, Rule>;

describe("the tree keeps the rule", () => {
  const tree = readTree();
  test.each(Object.entries(ALL_RULES))("%s", (_name, rule) => {
    expect(tree.length).toBeGreaterThan(5);
    expect(rule(tree)).toEqual([]);
  });
});

describe("a planted file is caught by", () => {
  const word = "TO" + "DO";
  const long = (lines: number): string => "x;\n".repeat(lines);
  const caught: [keyof typeof ALL_RULES, path: string, text: string][] = [
    ["layers", "src/std/a.ts", 'import { b } from "../kernel/b.ts";'],
    ["layers", "src/std/a.ts", 'export * from "../kernel/b.ts";'],
    ["layers", "src/kernel/a.ts", 'const b = await import("../engine/b.ts");'],
    ["layers", "src/kernel/a.ts", 'import "../compose/compose.ts";'],
    ["layers", "src/kernel/a.ts", 'import { z } from "zod";'],
    ["layers", "src/kernel/a.ts", 'import { hash } from "node:crypto";'],
    ["layers", "src/sdk/a.ts", 'import fs from "node:fs";'],
    ["layers", "src/sdk/a.ts", 'import { b } from "../worker/b.ts";'],
    ["layers", "src/engine/a.ts", 'import {\n  b,\n} from "../store/memory/b.ts";'],
    ["layers", "src/store/memory/a.ts", 'import { b } from "../sqlite/b.ts";'],
    ["layers", "src/store/store.ts", 'import { b } from "./sqlite/b.ts";'],
    ["layers", "src/cli/a.ts", 'import { b } from "../store/sqlite/b.ts";'],
    ["layers", "src/server/a.ts", 'import { b } from "../broker/b.ts";'],
    ["layers", "src/engine/a.ts", 'import { b } from "../server/b.ts";'],
    ["layers", "src/cli/a.ts", 'import { b } from "../server/b.ts";'],
    ["layers", "src/cli/a.ts", 'import { b } from "../server/schemas/b.ts";'],
    ["layers", "src/cli/a.ts", 'import type { b } from "../server/routes/b.ts";'],
    ["layers", "src/rondo/a.ts", 'import { b } from "../../tools/sim/b.ts";'],
    ["layers", "src/novel/a.ts", ""],
    ["browserSafe", "src/client.ts", 'import fs from "node:fs";'],
    ["fileSize", "src/kernel/a.ts", long(701)],
    ["roomSize", "src/retention/a.ts", long(351)],
    ["bannedGlobals", "src/kernel/a.ts", "const now = Date.now();"],
    ["bannedGlobals", "src/kernel/a.ts", "const now = new Date();"],
    ["bannedGlobals", "src/engine/a.ts", "setTimeout(f, 1);"],
    ["bannedGlobals", "tools/sim/a.ts", "const id = `x${Math.random()}`;"],
    ["bannedGlobals", "src/sdk/a.ts", "const id = crypto.randomUUID();"],
    ["bannedGlobals", "src/server/a.ts", 'const a = "//"; const b = process.env["A"];'],
    ["fileNames", "src/kernel/utils.ts", ""],
    ["fileNames", "src/kernel/taskSet.ts", ""],
    ["testFolders", "test/novel/a.test.ts", ""],
    ["testFolders", "test/store/store-bench.ts", ""],
    ["testImports", "src/kernel/a.test.ts", 'import { b } from "../../test/store/b.ts";'],
    ["testImports", "tools/sim/a.test.ts", 'import { b } from "../../test/tools/b.ts";'],
    ["testImports", "test/server/audit/a.test.ts", 'import { b } from "../../store/b.ts";'],
    ["testImports", "test/fixtures/store/a.ts", 'import { b } from "../../store/b.ts";'],
    ["headers", "src/kernel/a.ts", long(61)],
    ["leftOvers", "src/kernel/a.test.ts", `describe.${"only"}("x", () => {});`],
    ["leftOvers", "src/kernel/a.ts", `// ${word}: later`],
    ["machineTraces", "README.md", `see ${"/ho"}me/me/x`],
    ["machineTraces", "README.md", `https://registry.${"npmjs"}.org/x`],
    ["lockFile", "package-lock.json", '{"packages":{"node_modules/a":{"hasInstallScript":true}}}'],
    ["lockFile", "package-lock.json", '{"packages":{"node_modules/a":{"resolved":"https://a/b"}}}'],
    ["markers", "src/kernel/a.ts", "// @plant no bug of this name\na();"],
    ["markers", "tools/sim/bugs.ts", ""],
    ["words", "src/engine/timer-desk.ts", ""],
    ["words", "src/engine/a.ts", "export class LetterQueue {}"],
    ["words", "src/engine/a.test.ts", "const voices = 1;"],
    ["words", "src/engine/a.ts", "// The desk of timers."],
    ["map", "ARCHITECTURE.md", "see `engine/no-such-file.ts`"],
    ["map", "ARCHITECTURE.md", "a line\n".repeat(151)],
    ["glossary", "ARCHITECTURE.md", "## Glossary\n| gizmo | a thing | | |\n"],
  ];
  test.each(caught)("%s: %s: %s", (name, path, text) => {
    expect(ALL_RULES[name]([{ path, text }])).toEqual([expect.stringContaining(path)]);
  });
});

test("a crumb is caught: a small file with one importer beside it", () => {
  const small = { path: "src/kernel/b.ts", text: "export const b = 1;" };
  const importer = { path: "src/kernel/a.ts", text: 'import { b } from "./b.ts";' };
  expect(crumbs([small, importer])).toEqual([expect.stringContaining("src/kernel/b.ts")]);
  expect(crumbs([small, importer, { ...importer, path: "src/kernel/c.ts" }])).toEqual([]);
  expect(crumbs([small, importer, { path: "src/kernel/b.test.ts", text: "" }])).toEqual([]);
  expect(crumbs([small, { path: "src/engine/a.ts", text: 'import { b } from "../kernel/b.ts";' }])).toEqual(
    [],
  );
});

describe("no rule complains about", () => {
  const fine: [path: string, text: string][] = [
    ["src/sdk/a.ts", 'import type { B } from "../worker/b.ts";\nimport { c } from "./c.ts";'],
    ["src/engine/a.ts", 'import { type Store, b } from "../store/store.ts";'],
    ["src/store/sqlite/a.ts", 'import { b } from "../store.ts";\nimport fs from "node:fs";'],
    ["src/std/hash.ts", 'import { createHash } from "node:crypto";'],
    ["src/std/clock.ts", "const now = Date.now();"],
    ["src/kernel/a.ts", '// Date.now()\nconst at = new Date(0), b = "Math.random";\n/* setTimeout */'],
    ["src/kernel/a.test.ts", 'import { b } from "../store/memory/b.ts";\nsetTimeout(b, 1);'],
    ["src/kernel/a.ts", `// What it owns.\n${"x;\n".repeat(699)}`],
    ["src/kernel/b.test.ts", 'import { b } from "../../test/fixtures/kernel/b.ts";'],
    ["test/server/audit/a.test.ts", 'import { b } from "../../fixtures/b.ts";\nimport { c } from "../c.ts";'],
    ["src/kernel/dead-letters.ts", "// A letter\nexport class DeadLetterList {}"],
    ["docs/a.md", "GET /v1/home/items, https://example.com/home/x"],
  ];
  test.each(fine)("%s: %s", (path, text) => {
    expect(Object.values(ALL_RULES).flatMap((rule) => rule([{ path, text }]))).toEqual([]);
  });
});

function readTree(): TreeFile[] {
  const binary = /\.(?:png|ico|jpg|gif|woff2?|gz|tgz|db|wasm)$/;
  return listTree()
    .filter((path) => lstatSync(path, { throwIfNoEntry: false })?.isFile() === true && !binary.test(path))
    .map((path) => ({ path, text: readFileSync(path, "utf8") }));
}

/** Tracked and new files, not ignored ones; without git or a repository, a walk that leaves out what .gitignore names. */
function listTree(): string[] {
  const git = spawnSync("git", ["ls-files", "-co", "--exclude-standard"], { encoding: "utf8" });
  if (git.status === 0) return git.stdout.split("\n").filter((path) => path !== "");
  const ignored = /(?:^|\/)(?:node_modules|dist|coverage|\.rondo|\.git)(?:\/|$)|\.(?:log|tgz|tsbuildinfo)$/;
  return readdirSync(".", { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => posix.join(entry.parentPath, entry.name))
    .filter((path) => !ignored.test(path));
}

/** The TypeScript of src/ and tools/ without its tests. */
function sources(files: readonly TreeFile[]): TreeFile[] {
  return files.filter(({ path }) => /^(?:src|tools)\/.*(?<!\.test|\.test-d)\.ts$/.test(path));
}

/** What a file imports, relative targets as paths from the root of the repository. */
function imports(file: TreeFile): { line: number; target: string; typeOnly: boolean }[] {
  const text = blank(file.text, "comments");
  const pattern = /\b(?:import|export)\b(?:(\s+type\b)?[^"';]*?\bfrom)?[\s(]*["']([^"'\n]+)["']/g;
  return Array.from(text.matchAll(pattern), (match) => {
    const specifier = match[2] ?? "";
    const target = specifier.startsWith(".") ? posix.join(posix.dirname(file.path), specifier) : specifier;
    return { line: lineAt(text, match.index), target, typeOnly: match[1] !== undefined };
  });
}

/** The top folder of src/ that a path is in, or the file's own name when it is right under src/; "tools" for tools/. */
function layerOf(path: string): string {
  const [root, top = ""] = path.split("/");
  return root === "tools" ? root : top;
}

/** The folder of test/ that a path is in: "store" for test/store/postgres/x.ts, "" for a file right under test/. */
function testFolderOf(path: string): string {
  return path.split("/").length > 2 ? (path.split("/")[1] ?? "") : "";
}

/** "memory" for src/store/memory/x.ts, "" for a file right under src/store/. */
function adapterOf(path: string): string {
  const parts = path.split("/");
  return parts.length > 3 ? (parts[2] ?? "") : "";
}

/** Spaces for what is not code; lines and columns stay. Templates stay too, since code can stand in them. */
function blank(text: string, what: "comments" | "comments and strings"): string {
  const pattern = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/g;
  return text.replaceAll(pattern, (part) =>
    part.startsWith("/") || what === "comments and strings" ? part.replaceAll(/[^\n]/g, " ") : part,
  );
}

function find({ path, text }: TreeFile, pattern: RegExp, complaint: string): string[] {
  return Array.from(text.matchAll(pattern), (match) => `${path}:${lineAt(text, match.index)}: ${complaint}`);
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split("\n").length;
}

function lineCount(text: string): number {
  return text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
}
