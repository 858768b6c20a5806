// Where alerts go: a URL behind the guard of outgoing requests, signed; or a program that only the configuration can name.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { WebhookSecrets } from "../../commands/post-ops/webhook-secrets.ts";
import { AllowList } from "../../net/guard/allow-list.ts";
import { GuardedHttp, type GuardedRequest } from "../../net/guard/guarded-http.ts";
import { systemClock } from "../../std/clock.ts";
import { unwrap } from "../../std/rejection.ts";
import { type AlertTarget, TargetSender } from "./alert-sender.ts";

const happening = {
  key: "k",
  at: 7,
  text: "Execution x failed",
  page: "/executions/x",
  data: { execution: "x" },
};
const message = {
  id: "alert_1",
  rule: { id: "r", when: "execution.failed" },
  happening,
  isTest: false,
} as const;
const RUNNING = new AbortController().signal;

function senderOf(
  targets: Readonly<Record<string, AlertTarget>>,
  send?: (request: GuardedRequest) => unknown,
) {
  const guard = new GuardedHttp({ allow: unwrap(AllowList.parse([])) });
  const clock = systemClock();
  return new TargetSender({
    ...{ targets, clock, url: () => "http://rondo.example" },
    broadcast: {
      ...{ clock, version: "1" },
      guard:
        send === undefined
          ? guard
          : { refusalOf: () => null, send: async (request) => send(request) as never },
      secrets: unwrap(WebhookSecrets.parse(["a secret of many bytes"])),
    },
  });
}

test("a webhook gets a signed POST with the id of the alert, and a link", async () => {
  const requests: GuardedRequest[] = [];
  const sender = senderOf({}, (request) => {
    requests.push(request);
    return { kind: "answer", status: 204, headers: {}, text: "", isCut: false };
  });
  expect(await sender.send("https://hooks.example.com/x", message, RUNNING)).toBe(null);
  const [request] = requests;
  expect(request?.headers).toMatchObject({ "webhook-id": "alert_1" });
  expect(request?.headers?.["webhook-signature"]).toMatch(/^v1,/);
  expect(JSON.parse(request?.body ?? "")).toEqual({
    ...{ id: "alert_1", type: "alert.execution.failed", rule: "r", at: 7, text: "Execution x failed" },
    ...{ url: "http://rondo.example/executions/x", data: { execution: "x" } },
  });
});

test("targets inside the network are refused, and so are names that the configuration does not have", async () => {
  const sender = senderOf({});
  expect(sender.refusalOf("http://127.0.0.1:9/x")).not.toBe(null);
  expect(sender.refusalOf("/usr/bin/true")).toMatchObject({ code: "invalid_input" });
  expect(await sender.send("/usr/bin/true", message, RUNNING)).toMatch(/there is no target/);
  expect(await sender.send("http://169.254.169.254/latest", message, RUNNING)).toMatch(/169\.254/);
});

test("a program of the configuration gets the alert on its standard input; its exit code counts", async () => {
  const directory = mkdtempSync(join(tmpdir(), "rondo-alert-"));
  try {
    const file = join(directory, "got.json");
    const sender = senderOf({
      page: { command: ["/bin/sh", "-c", `cat > '${file}'`] },
      bad: { command: ["/bin/sh", "-c", "echo nobody is there >&2; exit 3"] },
      none: { command: ["/no/such/program"] },
    });
    expect(await sender.send("page", message, RUNNING)).toBe(null);
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ id: "alert_1", rule: "r" });
    expect(await sender.send("bad", message, RUNNING)).toMatch(/ended with 3: nobody is there/);
    expect(await sender.send("none", message, RUNNING)).toMatch(/cannot be run/);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
