// The public surface, read from declarations as the package ships them: every exported name and member has TSDoc, shows only
// exported types, and programs that export inferred types compile with `declaration: true`.
import { spawnSync } from "node:child_process";
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, posix, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type Declared, surfaceComplaints } from "../fixtures/sdk/public-surface-scan.ts";

const ENTRIES = ["src/index.d.ts", "src/client.d.ts", "src/react.d.ts", "src/testing.d.ts"];
const folder = mkdtempSync(join(tmpdir(), "rondo-surface-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function tsc(project: string): string {
  const { stdout, status } = spawnSync(resolve("node_modules/.bin/tsc"), ["-p", project], {
    encoding: "utf8",
  });
  return `${stdout}exit ${status}`;
}

/** Copies the declarations of the last build into a folder that looks like the installed package. */
function installPackage(): string {
  const installed = join(folder, "node_modules/rondo");
  const isDeclaration = (path: string): boolean => statSync(path).isDirectory() || path.endsWith(".d.ts");
  cpSync("dist/src", join(installed, "dist/src"), { recursive: true, filter: isDeclaration });
  cpSync("package.json", join(installed, "package.json"));
  for (const name of ["zod", "@types"])
    symlinkSync(resolve("node_modules", name), join(folder, "node_modules", name));
  return join(installed, "dist");
}

function readDeclarations(root: string): Map<string, string> {
  const paths = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".d.ts"),
  );
  return new Map(paths.map((path) => [posix.normalize(path), readFileSync(join(root, path), "utf8")]));
}

describe("the package", () => {
  const root = installPackage();

  test("exports nothing without TSDoc, and shows no type that it does not export", () => {
    const declarations = readDeclarations(root);
    expect(declarations.size).toBeGreaterThan(20);
    expect(surfaceComplaints(declarations, ENTRIES)).toEqual([]);
  });

  test("exports no function that the program below does not use", () => {
    const exported = ENTRIES.flatMap((entry) => {
      const text = readFileSync(join(root, entry), "utf8");
      const declared = [...text.matchAll(/^export declare function (\w+)/gm)].map(
        ([, name]) => name as string,
      );
      const listed = [...text.matchAll(/^export \{([^}]*)\}/gm)].flatMap(([, names]) =>
        (names as string).split(","),
      );
      return [...declared, ...listed.map((name) => name.trim())].filter((name) => /^[a-z]\w*$/.test(name));
    });
    expect(exported).toContain("flow");
    expect(exported.filter((name) => !new RegExp(`\\b${name}[(<]`).test(PROGRAM))).toEqual([]);
  });

  test("lets programs export inferred types with `declaration: true`", () => {
    writeFileSync(join(folder, "program.ts"), PROGRAM);
    const options = {
      target: "es2023",
      module: "nodenext",
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      declaration: true,
      skipLibCheck: true,
    };
    const compilerOptions = {
      ...options,
      types: [],
      outDir: "out",
      lib: ["es2023", "esnext.disposable", "dom"],
    };
    writeFileSync(join(folder, "program.json"), JSON.stringify({ compilerOptions, files: ["program.ts"] }));
    expect(tsc(join(folder, "program.json"))).toBe("exit 0");
  });
});

/** Every entry point, with types that the compiler infers. */
const PROGRAM = `
import { connect } from "rondo/client";
import { defineSignal, defineUpdate, event, flow, handler, handlerFor, on, openRondo, topic, workflow } from "rondo";
import { useExecution, useStream } from "rondo/react";
import { simulate, testRondo } from "rondo/testing";
import { z } from "zod";

export const untyped = workflow({ name: "untyped" }).waitFor("go").script("s", { runs: [{ name: "a", expression: "s => s" }] });
export const typed = workflow({ name: "typed", input: z.object({ bucket: z.string() }) })
  .phase("one", { enumerate: ({ input }) => [{ key: input.bucket, at: new Date() }], process: ({ task }) => task })
  .phase("several", { a: handler({ process: () => 1 }), b: handler({ process: ({ input }) => input }) })
  .command("told", { topic: "T", cmd: { cmd_type: "do" } })
  .child("inner", untyped)
  .waitFor("approved", { schema: z.object({ by: z.string() }), optional: true })
  .returns(({ phases }) => ({ by: phases.approved.value, count: phases.several.b.count }));
export const shared = handler({ process: ({ task, log, step }) => step("a", () => task) });
export const made = handlerFor<{ bucket: string }>()({ process: ({ input }) => input.bucket });
export const approved = defineSignal("approved", z.object({ by: z.string() }));
export const add = defineUpdate("add", { data: z.number(), answer: z.number() });
export const paid = event<{ order: number }>("order/paid");
export const triggered = workflow<{ order: number }>({ name: "triggered", on: on(paid, { key: "/order" }) })
  .phase("a", { process: ({ input }) => input.order });
export const flowing = flow("flowing", async (ctx, input: { n: number }) => {
  const doubled = await ctx.step("double", () => input.n * 2);
  const [by, all] = [await ctx.waitFor("approved"), await ctx.map("all", [1, 2], (n) => n * doubled)];
  return { by, all, child: await ctx.run(typed, { bucket: "b" }) };
});
export const commands = topic("T", ({ cmd }) => cmd.cmd_data);
export const open = () => openRondo({ store: "memory:" });
export const client = connect({ url: "http://127.0.0.1:7777" });
export const start = () => client.start(typed, { bucket: "b" });
export const here = async () => (await open()).start(flowing, { n: 1 });
export const same = async () => [await here(), await client.start(flowing, { n: 1 })] as const;
export const told = async () => (await here()).signal(approved, { by: "me" });
export const updated = async () => (await start()).update(add, 1);
export const watched = async () => (await here()).watch();
export const streamed = async () => (await start()).stream("out");
export const sentEvent = () => client.send(paid({ order: 1 }));
export const bulk = () => client.bulk("pause", { status: ["running"] });
export const Followed = () => useExecution<typeof typed>("x", { url: "http://127.0.0.1:7777", token: "t" });
export const Streamed = () => useStream<string>("x", "out", { url: "http://127.0.0.1:7777", token: "t" });
export const describeIt = async () => (await start()).describe();
export const page = () => client.list();
export const submitted = () => client.submitted("p", "w");
export const test = () => testRondo({ workflows: [typed, commands] });
export const sent = async () => (await test()).broadcasts;
export const summary = () => simulate(typed, { input: { bucket: "b" } });
`;

describe("the scan catches", () => {
  const HEAD = 'import type { Inner } from "./inner.ts";\n';
  const planted: [what: string, text: string, complaint: string][] = [
    ["a type", "export type A = string;", "A: has no TSDoc"],
    ["an interface", "export interface A {\n}", "A: has no TSDoc"],
    ["a member", "/** A. */\nexport interface A {\n    readonly b: string;\n}", "A.b: has no TSDoc"],
    [
      "a second member",
      "/** A. */\nexport interface A {\n    /** B. */\n    b: string;\n    c(): void;\n}",
      "A.c: has no TSDoc",
    ],
    ["a member of a class", "/** A. */\nexport declare class A {\n    b(): void;\n}", "A.b: has no TSDoc"],
    [
      "an option",
      "/** A. */\nexport interface AOptions {\n    /** B. */\n    b?: string;\n}",
      "AOptions.b: has no @default",
    ],
    ["a function", "/** A. */\nexport declare function a(): void;", "a: has no @example"],
    ["a leaked type", "/** A. */\nexport type A = Inner;", "A: shows Inner, which is not exported"],
    [
      "an inherited member",
      "interface Base {\n    c: string;\n}\n/** A. */\nexport interface A extends Base {\n}",
      "Base.c: has no TSDoc",
    ],
  ];
  test.each(planted)("%s", (_what, text, complaint) => {
    const declarations: Declared = new Map([
      ["src/index.d.ts", HEAD + text],
      ["src/inner.d.ts", "export interface Inner {\n}"],
    ]);
    expect(surfaceComplaints(declarations, ["src/index.d.ts"])).toContainEqual(
      expect.stringContaining(complaint),
    );
  });
});
