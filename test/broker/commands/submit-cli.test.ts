// `rondo submit` as its users meet it, and files with topics at `rondo run`, `rondo worker` and `rondo dev`.
import type { ProjectDocument, WorkflowDocument } from "rondo/client";
import { expect, test } from "vitest";
import { cli, folder, jsonLines, startCli, startServer } from "../../fixtures/cli/cli-process-fixture.ts";

const TOPICS = `
import { Fatal, topic } from "rondo";
export const good = topic("GOOD_CMD", ({ cmd }) => ({ did: cmd.cmd_type }));
export const bad = topic("BAD_CMD", () => { throw new Fatal("no such repository"); });
`;
const step = (type: string, topic: string) => ({
  cmd: { cmd_type: type },
  proc: { target_topic_name: topic },
});
const FILES = {
  "topics.ts": TOPICS,
  "good.json": JSON.stringify({ steps: [step("a", "GOOD_CMD"), step("b", "GOOD_CMD")] }),
  "bad.json": JSON.stringify({ steps: [step("a", "GOOD_CMD"), step("b", "BAD_CMD"), step("c", "GOOD_CMD")] }),
  "project.yaml": `
project-x:
  workflows:
    one: { steps: [{ cmd: { cmd_type: a }, proc: { target_topic_name: GOOD_CMD } }] }
    two: { steps: [{ cmd: { cmd_type: b }, proc: { target_topic_name: BAD_CMD } }] }
`,
  "wrong.json": JSON.stringify({ steps: [{ cmd: {}, proc: { target_topic_name: "GOOD_CMD" } }] }),
};

async function served(): Promise<string> {
  const cwd = folder(FILES);
  await startServer({ cwd });
  const worker = startCli(["worker", "topics.ts"], { cwd });
  await worker.line(/^worker .* serves /);
  return cwd;
}

const statuses = (stdout: string) =>
  jsonLines<WorkflowDocument>(stdout).flatMap(({ steps }) => steps.map(({ proc }) => proc.proc_status));

test("a file is handed in; with --wait its results are printed, and the exit code says how it ended", async () => {
  const cwd = await served();
  const sent = await cli(["submit", "good.json", "--project", "project-x", "--id", "g"], { cwd });
  expect(sent).toMatchObject({ code: 0, stdout: "g\n" });
  expect(sent.stderr).toContain("g: 2 commands at file:.rondo\n");
  expect(sent.stderr).toContain("rondo inspect g\n");
  expect(sent.stderr).toContain("rondo wait g\n");
  const waited = await cli(["submit", "good.json", "--project", "project-x", "--id", "g", "--wait"], { cwd });
  expect(waited.code).toBe(0);
  const [document] = jsonLines<WorkflowDocument>(waited.stdout) as [WorkflowDocument];
  expect(document.steps.map(({ cmd }) => cmd.cmd_result)).toEqual([{ did: "a" }, { did: "b" }]);
  expect(waited.stderr).not.toContain("\x1b");

  const failed = await cli(["submit", "bad.json", "--wait"], { cwd });
  expect(failed.code).toBe(1);
  expect(statuses(failed.stdout)).toEqual(["COMPLETE", "ERROR", "PENDING"]);
  expect(failed.stderr).toContain("no such repository");
  expect(failed.stderr).toMatch(/rondo retry /);
  const shown = await cli(["submit", "bad.json", "--wait", "--json"], { cwd });
  expect(shown.code).toBe(1);
  expect(statuses(shown.stdout)).toEqual(["COMPLETE", "ERROR", "PENDING"]);
});

test("stdin, YAML and whole documents are taken; --json prints the answer", async () => {
  const cwd = await served();
  const piped = await cli(["submit", "-", "--json"], { cwd, stdin: FILES["good.json"] });
  expect(piped.code).toBe(0);
  expect(jsonLines<WorkflowDocument>(piped.stdout)[0]?.workflow_id).toMatch(/^ex_/);
  const whole = await cli(["submit", "project.yaml"], { cwd });
  expect(whole).toMatchObject({ code: 0, stdout: "one\ntwo\n" });
  const both = await cli(["submit", "project.yaml", "--wait", "--json"], { cwd });
  expect(both.code).toBe(1);
  expect(jsonLines<WorkflowDocument>(both.stdout).map(({ workflow_id }) => workflow_id)).toEqual([
    "one",
    "two",
  ]);
  const again = await cli(["submit", "project.yaml", "--json"], { cwd });
  const [document] = jsonLines<ProjectDocument>(again.stdout) as [ProjectDocument];
  expect(document["project-x"]).toMatchObject({
    workflows: [
      { steps: [{ proc: { proc_status: "COMPLETE" } }] },
      { steps: [{ proc: { proc_status: "ERROR" } }] },
    ],
  });
});

test("what is wrong is told with its place, and with the exit codes of all commands", async () => {
  const cwd = await served();
  const wrong = await cli(["submit", "wrong.json"], { cwd });
  expect(wrong).toMatchObject({ code: 2, stdout: "" });
  expect(wrong.stderr).toContain("rondo: steps[0].cmd.cmd_type: nothing is not a text");
  const nothing = await cli(["submit", "nothing.json"], { cwd });
  expect(nothing).toMatchObject({ code: 3, stderr: "rondo: there is no file nothing.json\n" });
  const broken = await cli(["submit", "-"], { cwd, stdin: '{"steps": [}' });
  expect(broken.code).toBe(2);
  expect(broken.stderr).toContain('unexpected "}"');
  const named = await cli(["submit", "project.yaml", "--id", "x"], { cwd });
  expect(named.code).toBe(2);
  expect(named.stderr).toContain("--id can be used only with a document of the form { steps }");
  const elsewhere = await cli(["submit", "project.yaml", "--project", "other"], { cwd });
  expect(elsewhere.code).toBe(2);
  expect(elsewhere.stderr).toContain(
    'project-x: is not the project "other" to which the document was submitted',
  );
  await cli(["submit", "good.json", "--id", "g"], { cwd });
  expect((await cli(["submit", "bad.json", "--id", "g"], { cwd })).code).toBe(4);
  expect((await cli(["submit", "good.json", "--store", "file:elsewhere"], { cwd })).code).toBe(6);
});

test("a file with topics and a workflow runs by itself; one with topics only has nothing to run", async () => {
  const cwd = folder({
    "topics.ts": TOPICS,
    "both.ts": `
      import { workflow } from "rondo";
      export { good } from "./topics";
      export const both = workflow({ name: "both" })
        .command("first", { topic: "GOOD_CMD", cmd: { cmd_type: "a" } })
        .returns(async ({ phases }) => { for await (const result of phases.first.results()) return result; });
    `,
    "twice.ts": `
      import { topic } from "rondo";
      export const one = topic("A_CMD", () => 1);
      export const two = topic("A_CMD", () => 2);
    `,
  });
  const ran = await cli(["run", "both.ts", "--store", "memory:"], { cwd });
  expect(ran).toMatchObject({ code: 0, stdout: '{"did":"a"}\n' });
  const none = await cli(["run", "topics.ts"], { cwd });
  expect(none.code).toBe(2);
  expect(none.stderr).toContain("topics.ts exports topics, but no workflow that could be run");
  const twice = await cli(["run", "twice.ts"], { cwd });
  expect(twice.code).toBe(2);
  expect(twice.stderr).toContain('twice.ts exports two topics named "A_CMD"');
});

test("a broadcast that failed for good is reported, while the workflow is done and the exit code is 0", async () => {
  const cwd = await served();
  const url = "http://nobody-allows-this:6001/broadcast";
  const cmd_metadata = { cmd_post_op: { cmd_result_broadcasts: [{ url }] } };
  const told = { ...step("a", "GOOD_CMD"), cmd: { cmd_type: "a", cmd_metadata } };
  const stdin = JSON.stringify({ workflow_id: "told", steps: [told] });

  const waited = await cli(["submit", "-", "--wait", "--json"], { cwd, stdin });
  expect(waited.code).toBe(0);
  const [document] = jsonLines<WorkflowDocument & { dead_letters?: { id: number }[] }>(waited.stdout);
  expect(document?.steps[0]?.proc.proc_status).toBe("COMPLETE");
  expect(document?.dead_letters).toMatchObject([{ step: 0, op: "broadcast", target: url }]);
  const id = document?.dead_letters?.[0]?.id;
  expect(waited.stderr).toContain(
    "! told: 1 post-operation failed for good; the workflow continued without waiting for success\n",
  );
  expect(waited.stderr).toMatch(/step 0, broadcast to http:\/\/nobody-allows-this:6001\/broadcast: .*allow/);
  expect(waited.stderr).toContain(`rondo dlq retry ${id}\n`);

  // The document can be handed in again as it was printed; plain `submit` finds the workflow and says the same.
  const again = await cli(["submit", "-"], { cwd, stdin: waited.stdout });
  expect(again).toMatchObject({ code: 0, stdout: "told\n" });
  expect(again.stderr).toContain("1 post-operation failed for good");
  const shown = await cli(["submit", "-", "--json"], { cwd, stdin });
  expect(jsonLines<{ dead_letters?: unknown[] }>(shown.stdout)[0]?.dead_letters).toHaveLength(1);
});
