// Who may do what: the matrix of routes and roles, projects, and the log of who did what.
import { describe, expect, test } from "vitest";
import { operationsOf } from "../fixtures/server/api-document.ts";
import { type Api, type Got, serve, textOf, until } from "../fixtures/server/api-fixture.ts";
import { approval, doubles, failing, idle } from "../fixtures/server/api-workflows.ts";

const NOBODY = "";
const VIEWERS = "viewer operator admin";
const OPERATORS = "operator admin";
const ADMINS = "admin";
const WORKERS = "admin worker";
const ALL = "viewer operator admin worker";

/** Who may, by the operation's name. */
const MATRIX: Readonly<Record<string, string>> = {
  startExecution: OPERATORS,
  createExecutionToken: OPERATORS,
  startExecutions: OPERATORS,
  listExecutions: VIEWERS,
  getExecution: VIEWERS,
  getResult: VIEWERS,
  auditExecution: VIEWERS,
  repairExecution: OPERATORS,
  auditTables: OPERATORS,
  repairTables: ADMINS,
  whyExecution: VIEWERS,
  listDropped: VIEWERS,
  cancelExecution: OPERATORS,
  dropExecution: OPERATORS,
  moveExecution: OPERATORS,
  pauseExecution: OPERATORS,
  resumeExecution: OPERATORS,
  retryExecution: OPERATORS,
  retryTasks: OPERATORS,
  signalExecution: OPERATORS,
  updateExecution: OPERATORS,
  changeExecutions: OPERATORS,
  readEvents: VIEWERS,
  readLogs: VIEWERS,
  listStreams: VIEWERS,
  readPublished: VIEWERS,
  readStream: VIEWERS,
  listTasks: VIEWERS,
  mapTasks: VIEWERS,
  putWorkflow: "operator admin worker",
  listWorkflows: ALL,
  getWorkflow: ALL,
  listWorkflowVersions: ALL,
  putSchedule: OPERATORS,
  listSchedules: VIEWERS,
  getSchedule: VIEWERS,
  deleteSchedule: OPERATORS,
  pauseSchedule: OPERATORS,
  resumeSchedule: OPERATORS,
  runSchedule: OPERATORS,
  backfillSchedule: OPERATORS,
  listAttempts: VIEWERS,
  getCommands: VIEWERS,
  listCommands: VIEWERS,
  submitCommands: OPERATORS,
  getOverview: VIEWERS,
  countExecutions: VIEWERS,
  getProgress: VIEWERS,
  listLanes: VIEWERS,
  listDeadLetterGroups: VIEWERS,
  retryDeadLetterGroup: OPERATORS,
  dropDeadLetterGroup: OPERATORS,
  listLimits: VIEWERS,
  listTimers: VIEWERS,
  getRing: VIEWERS,
  listAttention: VIEWERS,
  getWorkflowStats: VIEWERS,
  listWorkflowStats: VIEWERS,
  listPausedQueues: VIEWERS,
  pauseQueue: OPERATORS,
  resumeQueue: OPERATORS,
  listAlerts: OPERATORS,
  testAlertRule: OPERATORS,
  putAlertRule: ADMINS,
  deleteAlertRule: ADMINS,
  sendEvent: OPERATORS,
  listEvents: VIEWERS,
  // The sender proves itself by a signature.
  receiveWebhook: `${ALL} nobody`,
  // What a caller may do there is decided by each tool.
  mcp: ALL,
  getTaskHistory: VIEWERS,
  listDeadLetters: VIEWERS,
  listUndelivered: VIEWERS,
  retryDeadLetter: OPERATORS,
  dropDeadLetter: OPERATORS,
  createToken: ADMINS,
  listTokens: ADMINS,
  deleteToken: ADMINS,
  createSession: ALL,
  getState: "viewer operator admin",
  getSession: ALL,
  deleteSession: `${ALL} nobody`,
  getConfig: ADMINS,
  readAuditLog: ADMINS,
  makeBackup: ADMINS,
  health: `${ALL} nobody`,
  ready: `${ALL} nobody`,
  metrics: VIEWERS,
  version: ALL,
  openapi: ALL,
  registerWorker: WORKERS,
  claimWork: WORKERS,
  sendWorkerEvents: WORKERS,
  heartbeat: WORKERS,
  listWorkers: VIEWERS,
  drainWorker: OPERATORS,
  removeWorker: WORKERS,
  getScaling: ALL,
  // By an attempt's own token, which none of these have: the routes themselves refuse it.
  getAttemptResults: NOBODY,
  getAttemptRuns: NOBODY,
  getMapItems: NOBODY,
  getRunArtifacts: NOBODY,
  getRunStatus: NOBODY,
  addAttemptLogs: NOBODY,
  setAttemptStatus: NOBODY,
};

const ROLES = ["viewer", "operator", "admin", "worker"];

/** The scope with which a token for one execution opens an operation, by the operation's name. All others stay closed to it. */
const SCOPED: Readonly<Record<string, string>> = {
  getExecution: "read",
  getResult: "read",
  whyExecution: "read",
  listStreams: "read",
  readPublished: "read",
  readStream: "read",
  readEvents: "history",
  readLogs: "history",
  listTasks: "history",
  mapTasks: "history",
  getTaskHistory: "history",
  signalExecution: "signal",
  updateExecution: "update",
  cancelExecution: "cancel",
};

describe("roles", () => {
  test("the matrix of routes and roles holds for every route", async () => {
    const api = await serve();
    const tokens: Record<string, string> = { admin: await api.makeToken("admin") };
    for (const role of ["viewer", "operator", "worker"]) tokens[role] = await api.makeToken(role);
    const found: Record<string, string> = {};
    for (const { method, path, operation } of operationsOf(await api.document())) {
      const allowed: string[] = [];
      for (const role of [...ROLES, "nobody"]) {
        const asked = path.replaceAll(/\{\w+\}/g, "7");
        const token = tokens[role] ?? null;
        const body = operation.requestBody === undefined ? {} : { body: "{}" };
        const { status } = await api.ask(method.toUpperCase(), asked, { token, ...body });
        if (role !== "nobody") expect(status, `${operation.operationId} as ${role}`).not.toBe(500);
        if (status !== 401 && status !== 403) allowed.push(role);
        else if (role !== "nobody" && !path.startsWith("/v1/attempts")) expect(status).toBe(403);
      }
      found[operation.operationId] = allowed.join(" ");
    }
    expect(found).toEqual(MATRIX);
  });

  test("a token for one execution opens the routes of its scopes for that execution, and nothing else", async () => {
    const api = await serve();
    await api.post("/v1/workflows", idle);
    // The paths of the matrix have the id 7.
    for (const id of ["7", "8"])
      await api.post("/v1/executions", { workflow: "idle", input: { bucket: "b" }, id });
    await api.makeToken("admin");
    const all = ["read", "history", "signal", "update", "cancel"];
    const holders: Record<string, string> = {};
    const make = async (id: string, scopes: readonly string[]): Promise<string> => {
      const made = await api.post(`/v1/executions/${id}/tokens`, { scopes });
      expect(made.status).toBe(201);
      return textOf(made.body["token"]);
    };
    for (const scope of all) holders[scope] = await make("7", [scope]);
    const whole = await make("7", all);
    const other = await make("8", all);
    const found: Record<string, string> = {};
    for (const { method, path, operation } of operationsOf(await api.document())) {
      const id = operation.operationId;
      if (MATRIX[id]?.includes("nobody") === true) continue;
      const asked = path.replaceAll(/\{\w+\}/g, "7");
      const body = operation.requestBody === undefined ? {} : { body: "{}" };
      const status = async (token: string) =>
        (await api.ask(method.toUpperCase(), asked, { token, ...body })).status;
      expect(await status(other), `${id} with a token for another execution`).toBe(403);
      const opening: string[] = [];
      for (const [scope, token] of Object.entries(holders)) {
        const got = await status(token);
        expect(got, `${id} with ${scope}`).not.toBe(401);
        expect(got, `${id} with ${scope}`).not.toBe(500);
        if (got !== 403) opening.push(scope);
      }
      if (opening.length > 0) found[id] = opening.join(" ");
      expect((await status(whole)) === 403, `${id} with all scopes`).toBe(opening.length === 0);
    }
    expect(found).toEqual(SCOPED);
  });
});

describe("projects", () => {
  async function books(): Promise<{ api: Api; operator: string; admin: string }> {
    const api = await serve();
    api.rondo.serve(doubles, approval, failing);
    await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (3 as never));
    await api.makeToken("admin");
    const operator = await api.makeToken("operator", "books");
    const admin = await api.makeToken("admin", "books");
    await api.post("/v1/executions", { workflow: "approval", id: "theirs", project: "music" });
    await api.post("/v1/executions", { workflow: "approval", id: "ours", project: "books" });
    await api.post("/v1/schedules", {
      id: "theirs",
      workflow: "doubles",
      input: {},
      cron: "0 6 * * *",
      project: "music",
    });
    await api.post("/v1/executions", { workflow: "failing", id: "failed", project: "music" });
    await until(async () => (await api.get("/v1/dead-letters")).body["data"]?.["length"] === (1 as never));
    return { api, operator, admin };
  }
  const ids = ({ body }: Got): string[] => (body["data"] as unknown as { id: string }[]).map(({ id }) => id);

  test("who is bound to one sees and changes that one only", async () => {
    const { api, operator: token } = await books();
    expect(ids(await api.get("/v1/executions", { token }))).toEqual(["ours"]);
    expect(ids(await api.get("/v1/executions?project=music", { token }))).toEqual([]);
    expect((await api.get("/v1/executions/ours", { token })).status).toBe(200);
    for (const path of [
      "",
      "/events",
      "/tasks",
      "/tasks/states",
      "/logs",
      "/streams",
      "/streams/s",
      "/published",
      "/why",
      "/dropped",
    ])
      expect((await api.get(`/v1/executions/theirs${path}`, { token })).status, path).toBe(404);
    for (const action of ["cancel", "pause", "resume", "retry"])
      expect((await api.post(`/v1/executions/theirs/${action}`, {}, { token })).status).toBe(404);
    const signal = { name: "approved", data: { by: "x" } };
    expect((await api.post("/v1/executions/theirs/signals", signal, { token })).status).toBe(404);
    const starting = { ...signal, start: { workflow: "approval" } };
    expect((await api.post("/v1/executions/theirs/signals", starting, { token })).body).toMatchObject({
      code: "conflict",
      detail: "an execution with this id exists, from a different start",
    });
    const foreign = { ...signal, start: { workflow: "approval", project: "music" } };
    expect((await api.post("/v1/executions/new/signals", foreign, { token })).status).toBe(403);
    const bulk = await api.post("/v1/executions/bulk", { action: "pause", filter: {} }, { token });
    expect(bulk.body).toMatchObject({ matched: 1, ids: ["ours"] });
    const others = await api.post(
      "/v1/executions/bulk",
      { action: "pause", filter: { project: "music" } },
      { token },
    );
    expect(others.body).toMatchObject({ matched: 0 });
    expect(ids(await api.get("/v1/schedules", { token }))).toEqual([]);
    expect((await api.get("/v1/schedules/theirs", { token })).status).toBe(404);
    expect((await api.delete("/v1/schedules/theirs", { token })).status).toBe(404);
    expect((await api.post("/v1/schedules/theirs/run", undefined, { token })).status).toBe(404);
    expect(ids(await api.get("/v1/dead-letters", { token }))).toEqual([]);
    const [letter] = ids(await api.get("/v1/dead-letters"));
    expect((await api.post(`/v1/dead-letters/${letter}/drop`, {}, { token })).status).toBe(404);
    expect((await api.get("/v1/timers", { token })).body["data"]).toMatchObject([{ execution: "ours" }]);
    expect((await api.get("/v1/timers")).body["data"]).toMatchObject([
      { execution: "theirs" },
      { execution: "ours" },
    ]);
  });

  test("starts in its own, also where nothing is said, and nowhere else", async () => {
    const { api, operator: token } = await books();
    const started = await api.post("/v1/executions", { workflow: "approval", id: "new" }, { token });
    expect(started.body["project"]).toBe("books");
    const other = await api.post("/v1/executions", { workflow: "approval", project: "music" }, { token });
    expect(other.body).toMatchObject({ code: "forbidden", path: "project" });
    // An id that is taken elsewhere is a conflict; what is there is not shown.
    const taken = await api.post("/v1/executions", { workflow: "approval", id: "theirs" }, { token });
    expect(taken.body).toMatchObject({ code: "conflict" });
    expect(taken.text).not.toContain("music");
    // Nor does it become the newest of that id after the end.
    await api.post("/v1/executions/theirs/cancel", {});
    await until(async () => (await api.get("/v1/executions/theirs")).body["finishedAt"] !== null);
    const next = { workflow: "approval", id: "theirs", ifExists: "startNewWhenDone" };
    const followed = await api.post("/v1/executions", next, { token });
    expect(followed.body).toMatchObject({ code: "conflict" });
    expect(followed.text).not.toContain("music");
    const signal = {
      name: "approved",
      data: { by: "x" },
      start: { workflow: "approval", ifExists: next.ifExists },
    };
    expect((await api.post("/v1/executions/theirs/signals", signal, { token })).body["code"]).toBe(
      "conflict",
    );
    expect((await api.get("/v1/executions/theirs")).body).toMatchObject({ id: "theirs", project: "music" });
    const spec = { id: "theirs", workflow: "doubles", input: {}, cron: "0 6 * * *" };
    expect((await api.post("/v1/schedules", spec, { token })).body).toMatchObject({ code: "conflict" });
    expect((await api.post("/v1/schedules", { ...spec, id: "mine" }, { token })).body).toMatchObject({
      project: "books",
    });
    const elsewhere = { ...spec, id: "x", project: "music" };
    expect((await api.post("/v1/schedules", elsewhere, { token })).body).toMatchObject({ code: "forbidden" });
  });

  test("what is about the whole server is not for it", async () => {
    const { api, operator, admin } = await books();
    expect((await api.post("/v1/workflows", idle, { token: operator })).status).toBe(403);
    for (const path of ["/v1/config", "/v1/workers", "/v1/scaling", "/metrics"])
      expect((await api.get(path, { token: admin })).status, path).toBe(403);
    expect((await api.get("/v1/workflows", { token: operator })).status).toBe(200);
  });

  test("a worker of one gets tasks of it and of no other, and speaks for no worker of others", async () => {
    const { api } = await books();
    await api.post("/v1/workflows", {
      name: "far",
      phases: [{ name: "a", handlers: { a: { use: "far.a" } } }],
    });
    for (const project of ["music", "books"])
      await api.post("/v1/executions", { workflow: "far", id: `far-${project}`, project });
    const [token, every] = [await api.makeToken("worker", "books"), await api.makeToken("worker")];
    const far = { name: "w", handlers: [{ use: "far.a" }], capacity: 9 };
    const worker = textOf((await api.post("/v1/workers", far, { token })).body["worker"]);
    // What is there comes at once, however long is waited for it.
    const claim = async (id: string, as: string, waitMs = 60_000) =>
      (await api.post(`/v1/workers/${id}/claim`, { max: 9, waitMs }, { token: as })).body;
    expect(await claim(worker, token)).toMatchObject({
      work: [{ execution: "far-books", project: "books" }],
    });
    expect(await claim(worker, token, 50)).toMatchObject({ work: [] });
    expect((await api.get("/v1/executions/far-music/why")).body["why"]).toContain("none serves");
    const other = textOf((await api.post("/v1/workers", far, { token: every })).body["worker"]);
    expect(await claim(other, token)).toMatchObject({ code: "not_found" });
    expect((await api.post("/v1/workers", { ...far, worker: other }, { token })).body).toMatchObject({
      code: "forbidden",
    });
    expect((await api.delete(`/v1/workers/${other}`, { token })).status).toBe(404);
    expect(await claim(other, every)).toMatchObject({ work: [{ execution: "far-music" }] });
    const list = (await api.get("/v1/workers")).body["data"] as unknown as { id: string; project: unknown }[];
    expect(list.find(({ id }) => id === worker)?.project).toBe("books");
    expect(list.find(({ id }) => id === other)?.project).toBe(null);
  });

  test("an admin of one makes and revokes tokens of it, and sees its part of the audit log", async () => {
    const { api, admin: token } = await books();
    expect(
      (await api.post("/v1/tokens", { name: "x", role: "admin", project: "music" }, { token })).status,
    ).toBe(403);
    const made = await api.post("/v1/tokens", { name: "x", role: "viewer" }, { token });
    expect(made.body).toMatchObject({ project: "books", createdBy: "admin-books" });
    const all = (await api.get("/v1/tokens")).body["data"] as unknown as { id: string; name: string }[];
    const own = (await api.get("/v1/tokens", { token })).body["data"] as unknown as { name: string }[];
    expect(own.map(({ name }) => name)).toEqual(["operator-books", "admin-books", "x"]);
    expect((await api.delete(`/v1/tokens/${all[0]?.id}`, { token })).status).toBe(404);
    expect((await api.delete(`/v1/tokens/${textOf(made.body["id"])}`, { token })).status).toBe(204);
    await api.post("/v1/executions/ours/pause", {}, { token });
    await until(async () =>
      JSON.stringify((await api.get("/v1/audit-log", { token })).body).includes("execution.pause"),
    );
    const log = (await api.get("/v1/audit-log", { token })).body["data"] as unknown as { project: string }[];
    expect(new Set(log.map(({ project }) => project))).toEqual(new Set(["books"]));
  });
});

describe("the audit log", () => {
  test("says who did what, the newest first, in pages; reading is not in it", async () => {
    const api = await serve();
    await api.post("/v1/workflows", idle);
    await api.makeToken("admin");
    const token = await api.makeToken("operator");
    await api.post("/v1/executions", { workflow: "idle", input: { bucket: "b" }, id: "one" }, { token });
    await api.post("/v1/executions/one/pause", {}, { token });
    await api.post("/v1/executions/one/pause", { reason: 7 }, { token });
    await api.get("/v1/executions/one", { token });
    await api.post("/v1/executions/bulk", { action: "resume", filter: {} }, { token });
    const expected = [
      ["operator-all", "executions.bulk", "resume {}"],
      ["operator-all", "execution.pause", "one"],
      ["operator-all", "execution.start", "one"],
      ["admin-all", "token.create", expect.stringContaining("operator-all")],
      ["local", "token.create", expect.stringContaining("admin-all")],
      ["local", "workflow.put", expect.stringContaining("idle")],
    ];
    interface Entry {
      readonly who: string;
      readonly action: string;
      readonly target: string;
    }
    const read = async (): Promise<unknown[]> => {
      const found: unknown[] = [];
      let cursor = "";
      for (;;) {
        const { body } = await api.get(`/v1/audit-log?limit=2${cursor}`);
        found.push(
          ...(body["data"] as unknown as Entry[]).map(({ who, action, target }) => [who, action, target]),
        );
        if ((body["next"] as unknown) === null) return found;
        cursor = `&cursor=${textOf(body["next"])}`;
      }
    };
    await until(async () => (await read()).length >= 6);
    expect(await read()).toEqual(expected);
  });
});
