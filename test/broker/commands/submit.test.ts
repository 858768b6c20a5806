// Command workflows over HTTP: handed in, refused, found again, read and listed.
import { connect } from "rondo/client";
import { describe, expect, test } from "vitest";
import {
  documentOf,
  EXAMPLE,
  eventsOf,
  pageOf,
  pathOf,
  read,
  statuses,
  step,
} from "../../fixtures/broker/command-fixture.ts";
import { STORES, serve, textOf, until } from "../../fixtures/server/api-fixture.ts";

const P = "project-x";
const PATH = pathOf(P);
const one = step("A", "A_CMD");
const two = step("B", "B_CMD", { cmd_data: { b: 1, a: [1, 2] } });

describe.each(STORES)("over a %s store", (_, store) => {
  test("a submission is started, and read back in its own shape", async () => {
    const api = await serve({ store: store() });
    const sent = await api.post(PATH, { steps: [one, two], workflow_id: "w-1" });
    expect(sent.status).toBe(201);
    expect(sent.headers.get("location")).toBe(`${PATH}/w-1`);
    const document = documentOf(sent);
    expect(document).toEqual({
      workflow_id: "w-1",
      workflow_hash: expect.stringMatching(/^[\da-f]{64}$/),
      steps: [
        {
          cmd: {
            cmd_type: "A",
            cmd_data: {},
            cmd_metadata: {
              cmd_hash: expect.stringMatching(/^[\da-f]{64}$/),
              workflow_hash: document.workflow_hash,
            },
            cmd_result: {},
          },
          proc: {
            target_topic_name: "A_CMD",
            receipt_topic_name: "A_RECEIPT",
            retry: { min: 0, max: 0 },
            proc_status: "PENDING",
            proc_err: null,
            utc_created_timestamp: expect.stringMatching(/^20\d\d-\d\d-\d\dT[\d:]+\.\d{3}Z$/),
            utc_started_timestamp: expect.any(String),
            utc_receipted_timestamp: null,
          },
        },
        {
          cmd: {
            cmd_type: "B",
            cmd_data: { b: 1, a: [1, 2] },
            cmd_metadata: { cmd_hash: expect.any(String), workflow_hash: document.workflow_hash },
            cmd_result: {},
          },
          proc: expect.objectContaining({
            target_topic_name: "B_CMD",
            receipt_topic_name: "B_RECEIPT",
            proc_status: "PENDING",
            utc_started_timestamp: null,
          }),
        },
      ],
    });
    const list = async (query: string) => pageOf(await api.get(`${PATH}?${query}`), P).ids;
    const other = documentOf(await api.post(PATH, { steps: [two], workflow_id: "w-other" }));
    const cmdHash = document.steps[1]?.cmd.cmd_metadata["cmd_hash"] as string;
    expect(await list(`workflow_hash=${document.workflow_hash}`)).toEqual(["w-1"]);
    expect(await list(`cmd_hash=${cmdHash}`)).toEqual(["w-other", "w-1"]);
    expect(await list(`workflow_hash=${other.workflow_hash}&cmd_hash=${cmdHash}`)).toEqual(["w-other"]);
    expect(await list(`workflow_hash=${"0".repeat(64)}`)).toEqual([]);
    expect(await read(api, "project-x", "w-1")).toEqual(document);
    // It is an execution like any other.
    expect((await api.get("/v1/executions/w-1")).body).toMatchObject({
      project: "project-x",
      status: "running",
      workflow: expect.stringMatching(/^commands-of-[\da-f]{16}$/),
      tags: { "rondo.commands": document.workflow_hash },
      phases: [{ name: "step-0" }, { name: "step-1" }],
    });
    expect((await api.get("/v1/executions/w-1/why")).body["why"]).toMatch(/A_CMD/);
    // Its definition is not in the way of others.
    expect((await api.get("/v1/workflows")).body).toEqual({ data: [], next: null });
  });

  test("workflows of one document share their commands, or only their name, and each is started; a taken id stops only itself", async () => {
    const api = await serve({ store: store() });
    const elsewhere = step("A", "ELSEWHERE");
    const workflows = [
      { steps: [one], workflow_id: "w-1" },
      { steps: [one], workflow_id: "w-2" },
      { steps: [elsewhere], workflow_id: "w-3" },
    ];
    for (const status of [201, 200]) {
      const sent = await api.post(PATH, { [P]: { workflows } });
      expect(sent.status).toBe(status);
      expect(pageOf(sent, P).ids).toEqual(["w-1", "w-2", "w-3"]);
    }
    for (const [id, topic] of [
      ["w-2", "A_CMD"],
      ["w-3", "ELSEWHERE"],
    ] as const)
      expect((await read(api, P, id)).steps[0]?.proc.target_topic_name).toBe(topic);
    const refused = await api.post(PATH, {
      [P]: {
        workflows: [
          { steps: [two], workflow_id: "w-1" },
          { steps: [two], workflow_id: "w-4" },
        ],
      },
    });
    expect(refused.status).toBe(409);
    expect(textOf(refused.body["detail"])).toContain("the other workflows were started: w-4");
    expect((await read(api, P, "w-4")).steps).toHaveLength(1);
  });

  test("L1 equal commands have equal hashes, whatever the order of keys; swapped ones others", async () => {
    const api = await serve({ store: store() });
    const hashes = async (...steps: unknown[]): Promise<[workflow: string, ...commands: unknown[]]> => {
      const { workflow_hash, steps: read } = documentOf(await api.post(PATH, { steps }));
      return [workflow_hash, ...read.map(({ cmd }) => cmd.cmd_metadata["cmd_hash"])];
    };
    const first = await hashes(one, two);
    expect(await hashes(one, step("B", "B_CMD", { cmd_data: { a: [1, 2], b: 1 } }))).toEqual(first);
    // Where they go and how they are tried is not what they are.
    expect(await hashes(step("A", "ELSEWHERE", { timeout: "1h" }), two)).toEqual(first);
    const [workflow, ...commands] = await hashes(two, one);
    expect(workflow).not.toBe(first[0]);
    expect(commands).toEqual([first[2], first[1]]);
    expect(new Set(await hashes(one, one)).size).toBe(2);
    // Frozen: whoever computes them elsewhere must get the same.
    expect(await hashes(EXAMPLE)).toEqual([
      "e34997b0a1744a8f7429e7e25bcda24a914807659545ef336875de880246ce1b",
      "d071af74bb548a7eeda9a40aa64ca3456e5b199a4c6094f8f59b929f1c7dab49",
    ]);
  });

  test("a whole document is handed in, as a list or by ids, and answered as one", async () => {
    const api = await serve({ store: store() });
    const listed = await api.post(PATH, { "project-x": { workflows: [{ steps: [one] }, { steps: [two] }] } });
    expect(listed.status).toBe(201);
    const { ids } = pageOf(listed, "project-x");
    expect(ids).toHaveLength(2);
    const mapped = await api.post(PATH, {
      "project-x": { workflows: { b: { steps: [one] }, a: { steps: [two] } } },
    });
    expect(pageOf(mapped, "project-x").ids).toEqual(["b", "a"]);
    // What a reader has can be handed in again: the same are found.
    const page = await api.get(PATH);
    expect(pageOf(page, "project-x")).toEqual({ ids: ["a", "b", ids[1], ids[0]], next: null });
    const again = await api.post(PATH, page.body);
    expect(again.status).toBe(200);
    expect(pageOf(again, "project-x").ids).toEqual(["a", "b", ids[1], ids[0]]);
    expect(pageOf(await api.get(PATH), "project-x").ids).toHaveLength(4);
  });

  test("the same is found by its id or its key; anything else under that is a conflict", async () => {
    const api = await serve({ store: store() });
    const body = { steps: [one], workflow_id: "w" };
    expect((await api.post(PATH, body)).status).toBe(201);
    expect((await api.post(PATH, body)).status).toBe(200);
    const others = [
      { ...body, steps: [two] },
      { ...body, steps: [step("A", "ELSEWHERE")] },
      { ...body, steps: [step("A", "A_CMD", { timeout: "1h" })] },
    ];
    for (const other of others)
      expect((await api.post(PATH, other)).body).toMatchObject({ code: "conflict", path: "workflow_id" });
    expect((await api.post(pathOf("other"), body)).body).toMatchObject({ code: "conflict" });
    const keyed = { headers: { "idempotency-key": "k" } };
    const first = documentOf(await api.post(PATH, { steps: [one] }, keyed));
    expect(documentOf(await api.post(PATH, { steps: [one] }, keyed)).workflow_id).toBe(first.workflow_id);
    const document = { "project-x": { workflows: [{ steps: [one] }, { steps: [one] }] } };
    const both = { headers: { "idempotency-key": "both" } };
    const { ids } = pageOf(await api.post(PATH, document, both), "project-x");
    expect(new Set([...ids, first.workflow_id]).size).toBe(3);
    expect(pageOf(await api.post(PATH, document, both), "project-x").ids).toEqual(ids);
    expect((await api.post(PATH, { steps: [one] })).status).toBe(201);
  });

  test("a list comes in pages, newest first, without what is no submission", async () => {
    const api = await serve({ store: store() });
    await api.post("/v1/workflows", {
      rondo: 1,
      name: "nap",
      phases: [{ name: "nap", handlers: { nap: { sleep: "1h" } } }],
    });
    const names = Array.from({ length: 7 }, (_, i) => `w-${i}`);
    for (const id of names) {
      await api.post(PATH, { steps: [one], workflow_id: id });
      await api.post("/v1/executions", { workflow: "nap", project: "project-x" });
      await api.post(pathOf("other"), { steps: [one] });
    }
    for (const limit of [1, 3, 7, 50]) {
      const found: string[] = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const page = pageOf(
          await api.get(`${PATH}?limit=${limit}${cursor === "" ? "" : `&cursor=${cursor}`}`),
          "project-x",
        );
        expect(page.ids.length).toBeLessThanOrEqual(limit);
        found.push(...page.ids);
        cursor = page.next;
      }
      expect(found).toEqual([...names].reverse());
    }
    expect((await api.get(`${PATH}?cursor=x`)).body).toMatchObject({ code: "invalid_input", path: "cursor" });
  });
});

test("what is wrong is refused in the document's words, and nothing of it is started", async () => {
  const api = await serve();
  const post = (op: unknown) => ({ cmd_metadata: { cmd_post_op: op } });
  const cases: [body: unknown, code: string, path: string][] = [
    [{ steps: [step("A", "A B")] }, "invalid_input", "steps[0].proc.target_topic_name"],
    [{ steps: [one, step("", "A_CMD")] }, "invalid_input", "steps[1].cmd.cmd_type"],
    [
      { steps: [step("A", "A_CMD", { receipt_topic_name: "A_CMD" })] },
      "invalid_input",
      "steps[0].proc.receipt_topic_name",
    ],
    [{ steps: [step("A", "A_CMD", { timeout: "soon" })] }, "invalid_input", "steps[0].proc.timeout"],
    [{ steps: [step("A", "A_CMD", { retry: { tries: 1 } })] }, "invalid_input", "steps[0].proc.retry"],
    [{ steps: [step("A", "A_CMD", { priority: 1 })] }, "unknown_field", "steps[0].proc.priority"],
    [
      { steps: [step("A", "A_CMD", post({ cmd_broadcasts: [] }))] },
      "invalid_input",
      "steps[0].cmd.cmd_metadata.cmd_post_op",
    ],
    [
      { steps: [step("A", "A_CMD", post({ cmd_result_broadcasts: [{ url: "ftp://a/b" }] }))] },
      "invalid_input",
      "steps[0].cmd.cmd_metadata.cmd_post_op.cmd_result_broadcasts[0].url",
    ],
    [
      { steps: [step("A", "A_CMD", { cmd_data: { from: "${step[0].cmd_result}" } })] },
      "invalid_input",
      "steps[0].cmd.cmd_data.from",
    ],
    [
      { "project-x": { workflows: [{ steps: [one] }, { steps: [step("A", "")] }] } },
      "invalid_input",
      "project-x.workflows[1].steps[0].proc.target_topic_name",
    ],
    [
      {
        "project-x": {
          workflows: [
            { workflow_id: "a", steps: [one] },
            { workflow_id: "a", steps: [two] },
          ],
        },
      },
      "invalid_input",
      "project-x.workflows[1]",
    ],
  ];
  for (const [body, code, path] of cases) {
    const got = await api.post(PATH, body);
    expect(got.body).toMatchObject({ status: 422, code, path });
    expect(textOf(got.body["detail"])).not.toMatch(/phase|handler/);
  }
  expect((await api.post(PATH, "{")).body).toMatchObject({ code: "invalid_json" });
  expect((await api.post(pathOf("next"), { steps: [one] })).body).toMatchObject({ path: "project" });
  expect((await api.get("/v1/executions")).body["data"]).toEqual([]);
});

test("a reference to a step that comes no earlier is refused", async () => {
  const api = await serve();
  for (const to of [0, 1, 7]) {
    const got = await api.post(PATH, {
      steps: [step("A", "A_CMD", { cmd_data: `\${steps[${to}].cmd_result}` }), one],
    });
    expect(got.body).toMatchObject({ status: 422, code: "invalid_input" });
    expect(textOf(got.body["path"])).toMatch(/^steps\[0\]\.cmd/);
  }
});

test("roles and projects are respected", async () => {
  const api = await serve();
  await api.makeToken("admin");
  const [viewer, own, other] = [
    await api.makeToken("viewer"),
    await api.makeToken("operator", "project-x"),
    await api.makeToken("operator", "other"),
  ];
  const to = (target_topic_name: string) => ({
    steps: [{ ...one, proc: { target_topic_name } }],
    workflow_id: "w",
  });
  const body = to("project-x_CMD");
  expect((await api.post(PATH, body, { token: viewer })).status).toBe(403);
  // A project that a token is bound to has its own topics, and those that the settings list.
  expect((await api.post(PATH, to("PAYMENTS_CMD"), { token: own })).body).toMatchObject({
    code: "forbidden",
    path: "steps[0].proc.target_topic_name",
    hint: expect.stringContaining("projects.project-x.topics"),
  });
  expect((await api.post(PATH, body, { token: other })).body).toMatchObject({
    code: "forbidden",
    path: "project",
  });
  expect((await api.post(PATH, body, { token: own })).status).toBe(201);
  expect(pageOf(await api.get(PATH, { token: viewer }), "project-x").ids).toEqual(["w"]);
  expect(pageOf(await api.get(PATH, { token: own }), "project-x").ids).toEqual(["w"]);
  expect(pageOf(await api.get(PATH, { token: other }), "project-x").ids).toEqual([]);
  expect((await api.get(`${PATH}/w`, { token: other })).status).toBe(404);
  // A taken id tells those of another project nothing else.
  const taken = await api.post(pathOf("other"), to("other_CMD"), { token: other });
  expect(taken.body).toMatchObject({ code: "conflict" });
  expect(taken.text).not.toContain("project-x");
  expect((await api.post(PATH, body, { token: null })).status).toBe(401);
});

test("the trace of a submission is carried along, and the audit log says who handed in what", async () => {
  const api = await serve();
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await api.post(PATH, { steps: [one], workflow_id: "w" }, { headers: { traceparent } });
  expect((await eventsOf(api, "w", "workflow.created"))[0]).toMatchObject({ trace: traceparent });
  await until(async () => (await api.get("/v1/audit-log")).body["data"]?.["length"] === (1 as never));
  expect((await api.get("/v1/audit-log")).body["data"]).toMatchObject([
    { action: "commands.submit", target: "w", project: P },
  ]);
});

test("what has no commands, or is of another project, is not found", async () => {
  const api = await serve();
  await api.post("/v1/workflows", {
    rondo: 1,
    name: "nap",
    phases: [{ name: "nap", handlers: { nap: { sleep: "1h" } } }],
  });
  await api.post("/v1/executions", { workflow: "nap", id: "nap", project: "project-x" });
  expect((await api.get(`${PATH}/nap`)).body).toMatchObject({
    status: 404,
    hint: "see it at /v1/executions/nap",
  });
  await api.post(PATH, { steps: [one], workflow_id: "w" });
  expect((await api.get(pathOf("other", "w"))).status).toBe(404);
  expect((await api.get(`${PATH}/nothing`)).status).toBe(404);
});

test("a workflow that was defined otherwise is read in the same shape", async () => {
  const api = await serve();
  await api.post("/v1/workflows", {
    rondo: 1,
    name: "mixed",
    phases: [
      { name: "nap", handlers: { nap: { sleep: 0 } } },
      { name: "embed", handlers: { embed: { command: { cmd_type: "A" }, topic: "A_CMD" } } },
      { name: "index", handlers: { index: { command: two.cmd, topic: "B_CMD", receiptTopic: "BACK" } } },
    ],
  });
  await api.post("/v1/executions", { workflow: "mixed", id: "m", project: "project-x" });
  const document = await read(api, "project-x", "m");
  expect(statuses(document)).toEqual(["PENDING", "PENDING"]);
  expect(document.steps[1]?.proc.receipt_topic_name).toBe("BACK");
  // The same commands, the same hash.
  expect(documentOf(await api.post(PATH, { steps: [one, two] })).workflow_hash).toBe(document.workflow_hash);
});

test("the client hands in, reads and lists", async () => {
  const api = await serve();
  const rondo = connect({ url: api.url });
  const sent = await rondo.submit("project-x", { steps: [one, two] });
  expect(await rondo.submitted("project-x", sent.workflow_id)).toEqual(sent);
  const again = await rondo.submit("project-x", { "project-x": { workflows: [sent] } });
  expect(again).toEqual({ "project-x": { workflows: [sent] } });
  const key = { idempotencyKey: "k" };
  const keyed = await rondo.submit("project-x", { steps: [one] }, key);
  expect((await rondo.submit("project-x", { steps: [one] }, key)).workflow_id).toBe(keyed.workflow_id);
  const page = await rondo.commands("project-x", { limit: 1 });
  expect(page).toEqual({ workflows: [keyed], next: expect.any(String) });
  expect(await rondo.commands("project-x", { cursor: page.next as string })).toEqual({
    workflows: [sent],
    next: null,
  });
  await expect(rondo.submit("project-x", { steps: [] })).rejects.toMatchObject({
    code: "invalid_input",
    path: "steps",
  });
});
