// What follows pages notices what is wrong with them: each of these is planted.
import { describe, expect, test } from "vitest";
import { followText } from "../fixtures/docs/follow-page-fixture.ts";
import { blocksOf } from "../fixtures/docs/page-fixture.ts";
import { commandsOf } from "../fixtures/docs/shell-fixture.ts";

const fenced = (info: string, text: string): string => `\`\`\`${info}\n${text}\n\`\`\`\n`;

describe("a page is", () => {
  test("its blocks, with their names and what is said above them", () => {
    const page = [
      "# Title\n",
      fenced("ts", "// flows.ts\nexport {};"),
      fenced("json repo.json", "{}"),
      "<!-- first: touch here -->\n<!-- not run: nobody has it -->\n",
      fenced("sh", "helm install"),
    ].join("");
    expect(blocksOf(page)).toMatchObject([
      { language: "ts", file: "flows.ts", line: 2, notRun: null },
      { language: "json", file: "repo.json", first: [] },
      { language: "sh", file: null, notRun: "nobody has it", first: ["touch here"], text: "helm install\n" },
    ]);
  });

  test("commands, each whole", () => {
    expect(commandsOf("a \\\n  b\n\n# nothing\nc '1\n2'\ncat <<END\nd\nEND\n")).toEqual([
      "a \\\n  b",
      "c '1\n2'",
      "cat <<END\nd\nEND",
    ]);
    expect(() => commandsOf("echo 'never ends\n")).toThrow("not a whole command");
  });
});

describe("it is noticed", () => {
  const wrong: [what: string, page: string, message: string | RegExp][] = [
    ["that a command fails", fenced("sh", "true\nfalse"), "planted.md:1: it ended with 1, not 0: false"],
    [
      "that a command does not fail as it says",
      fenced("sh", "true # exit code 1"),
      "it ended with 0, not 1: true",
    ],
    ["that output is another", fenced("sh", "echo 41") + fenced("text", "42"), '"42" is not in'],
    [
      "that output is in another order",
      fenced("sh", "echo a; echo b") + fenced("text", "b\na"),
      '"a" is not in',
    ],
    ["that a program throws", fenced("ts", 'throw new Error("oh");'), "Error: oh"],
    ["that data cannot be read", fenced("json", "{ a: 1 }"), /JSON/],
    ["that a definition is none", fenced("yaml", "rondo: 1\nname: x"), /phases/],
    ["that nobody knows how to run it", fenced("ruby", "puts 1"), 'nobody knows how to run "ruby"'],
    ["that what should stay ends at once", fenced("sh", "rondo start --port nine"), "ended at once"],
    ["that a run in the background fails", fenced("sh", "rondo run nowhere.ts &"), "nowhere.ts"],
  ];
  test.each(wrong)("%s", async (_what, page, message) => {
    await expect(followText("planted.md", page)).rejects.toThrow(message);
  });

  test("that all is well: variables, folders and files stay from one command to the next", async () => {
    const page = [
      fenced("sh", "export A=1\nmkdir -p sub && cd sub\necho $A > file"),
      fenced("sh", 'test "$(cat file)" = 1\npwd'),
      fenced("text", "…/here/sub"),
      fenced("sh", "exit() { return 3; }\nexit # exit code 3"),
    ];
    await followText("planted.md", page.join("\n"));
  });
});
