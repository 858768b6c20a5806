// The client runs in browsers: nothing that it reaches by value may be of Node, or of a package that needs Node.
import { readFileSync } from "node:fs";
import { posix } from "node:path";
import { expect, test } from "vitest";

test("no module of Node, and no package but a parser, is reached from src/client.ts", () => {
  const paths = new Set(["src/client.ts"]);
  const foreign: string[] = [];
  const nodeOnly: string[] = [];
  for (const path of paths) {
    const text = readFileSync(path, "utf8");
    const imports = text.matchAll(/^(?:import|export)\s(?!type\b)(?:[^;"]*\sfrom\s)?"([^"]+)";/gm);
    for (const [, target = ""] of imports)
      if (target.startsWith(".")) paths.add(posix.join(posix.dirname(path), target));
      else foreign.push(`${path}: ${target}`);
    if (/\b(?:process|Buffer)\.\w|\brequire\(|__dirname/.test(text)) nodeOnly.push(path);
  }
  expect(paths.size).toBeGreaterThan(15);
  expect(paths).toContain("src/client/follow-stream.ts");
  expect({ foreign, nodeOnly }).toEqual({
    foreign: ["src/client/event-stream.ts: eventsource-parser"],
    nodeOnly: [],
  });
});

test("a browser's bundler gets the compiled file, which has no module of Node", () => {
  const { exports } = JSON.parse(readFileSync("package.json", "utf8"));
  expect(Object.keys(exports["./client"])).toEqual(["types", "node", "default"]);
  expect(exports["./client"].default).toBe("./dist/src/client.js");
});

test("what it uses of the platform is there in a browser", async () => {
  const { connect } = await import("rondo/client");
  const asked: string[] = [];
  const client = connect({
    url: "http://127.0.0.1:1",
    fetch: (url, { method, headers }) => {
      asked.push(`${method} ${url} ${headers["accept"]}`);
      return Promise.resolve(new Response('{"data":[],"next":null}'));
    },
  });
  expect(await client.list()).toEqual({ data: [], next: null });
  expect(asked).toEqual(["GET http://127.0.0.1:1/v1/executions?detail=full application/json"]);
});
