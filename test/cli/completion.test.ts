// Completion, as shells would have it.
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { cli, folder } from "../fixtures/cli/cli-process-fixture.ts";

async function script(shell: string): Promise<string> {
  const { code, stdout, stderr } = await cli(["completion", shell], { cwd: folder() });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout;
}

test("bash completes verbs, words of a group, and options", async () => {
  const source = await script("bash");
  const complete = (...words: string[]): string[] => {
    const { stdout, stderr } = spawnSync(
      "bash",
      [
        "--norc",
        "-c",
        `${source}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); __rondo; printf '%s\\n' "\${COMPREPLY[@]}"`,
        "bash",
        "rondo",
        ...words,
      ],
      { encoding: "utf8", env: { PATH: "/usr/bin:/bin" } },
    );
    expect(stderr).toBe("");
    return stdout.split("\n").filter((word) => word !== "");
  };
  expect(complete("w")).toEqual(expect.arrayContaining(["why", "wait", "workers"]));
  expect(complete("insp")).toEqual(["inspect"]);
  expect(complete("schedules", "p")).toEqual(["put", "pause"]);
  expect(complete("events", "x", "--fo")).toEqual(["--follow"]);
  expect(complete("token", "create", "--ro")).toEqual(["--role"]);
});

test("bash takes the script without complaint, and zsh and fish get every verb", async () => {
  expect(spawnSync("bash", ["-n"], { input: await script("bash") }).status).toBe(0);
  for (const shell of ["zsh", "fish"]) {
    const source = await script(shell);
    for (const verb of ["run", "start", "dev", "ps", "signal", "dlq", "completion"])
      expect(source).toMatch(new RegExp(`(?:'| )${verb}[: ]`));
    expect(source.match(/(?<!\\)'/g)?.length ?? 1).toSatisfy((quotes: number) => quotes % 2 === 0);
  }
});
