// A configuration that does not load is the user's to mend: which file, which line, why; and exit code 2.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cli, folder } from "../fixtures/cli/cli-process-fixture.ts";

const THROWS = `const port = 1;
const secret = undefined;
export default { port, host: secret.name };
`;
const SYNTAX = `export default {
  port: = 1,
};
`;

test.each([
  ["code that throws, .js", "rondo.config.js", THROWS, "rondo.config.js:3"],
  ["code that throws, .ts", "rondo.config.ts", THROWS, "rondo.config.ts:3"],
  ["what is no code, .js", "rondo.config.js", SYNTAX, "rondo.config.js:2"],
  ["what is no code, .ts", "rondo.config.ts", SYNTAX, "rondo.config.ts:2"],
  ["a module that is missing, .js", "rondo.config.js", 'import "not-there";', 'cannot find "not-there"'],
  ["a module that is missing, .ts", "rondo.config.ts", 'import "not-there";', 'cannot find "not-there"'],
  ["what is no error, .js", "rondo.config.js", "throw 'just text';", "rondo.config.js: just text"],
  ["an error without a message", "rondo.config.js", "\n\nthrow new Error();", "rondo.config.js:3"],
])("%s", async (_what, name, text, says) => {
  const cwd = folder({ [name]: text, "package.json": '{ "type": "module" }' });
  const { code, stdout, stderr } = await cli(["ps"], { cwd });
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain(`rondo: ${says.startsWith("rondo") ? says : ""}`);
  expect(stderr).toContain(says);
  expect(stderr).not.toContain("bug");
});

test.each(["rondo.config.json", "rondo.config.js", "rondo.config.ts"])("a folder named %s", async (name) => {
  const cwd = folder();
  mkdirSync(join(cwd, name));
  const { code, stderr } = await cli(["ps"], { cwd });
  expect({ code, named: stderr.includes(name), bug: stderr.includes("bug") }).toEqual({
    code: 2,
    named: true,
    bug: false,
  });
});

test("plain modules of every kind still give their default export", async () => {
  for (const [name, text] of [
    ["a.mjs", "export default { host: 'h' };"],
    ["a.cjs", "module.exports = { host: 'h' };"],
    ["a.js", "export default { host: 'h' };"],
  ] as const) {
    const cwd = folder({ [name]: text, "package.json": '{ "type": "module" }' });
    const { stdout } = await cli(["doctor"], { cwd, env: { RONDO_CONFIG: name } });
    expect(stdout).toMatch(new RegExp(`^host +h +file ${name.replace(".", "\\.")}$`, "m"));
  }
});
