// Registrations of workers, checked before anything is taken on.
import { describe, expect, test } from "vitest";
import { isRejection } from "../../std/rejection.ts";
import { checkRegistration } from "./registration.ts";

const FINE = { name: "box-1", handlers: [{ use: "w.a" }], capacity: 10 };
const refusal = (body: unknown, peer: string | null = "10.0.0.7") => {
  const checked = checkRegistration(body, peer);
  return isRejection(checked) ? checked.message : "accepted";
};

test("is taken as it is", () => {
  expect(
    checkRegistration(
      {
        ...FINE,
        worker: "box-1~7",
        topics: ["LEXI_CMD_EMBED"],
        version: "1.2.0",
        url: "http://10.0.0.7:8080/",
      },
      "::ffff:10.0.0.7",
    ),
  ).toEqual({
    name: "box-1",
    worker: "box-1~7",
    serves: [{ use: "w.a" }, { use: "topic:LEXI_CMD_EMBED" }],
    topics: ["LEXI_CMD_EMBED"],
    capacity: 10,
    url: "http://10.0.0.7:8080",
    version: "1.2.0",
    project: null,
  });
  expect(checkRegistration({ ...FINE, handlers: [{ use: "~script" }] }, null)).toMatchObject({
    serves: [{ use: "~script" }],
  });
  expect(
    checkRegistration({ ...FINE, handlers: [{ use: "w.a", version: "1.0.1", enumerates: true }] }, null),
  ).toMatchObject({ serves: [{ use: "w.a", version: "1.0.1", enumerates: true }] });
});

describe("is refused", () => {
  test.each<[string, unknown, string]>([
    ["that is none", null, "body: null is not an object"],
    [
      "with a field that there is not",
      { ...FINE, colour: "red" },
      "colour: a registration has no such field",
    ],
    ["without a name", { ...FINE, name: "" }, 'name: "" is not a name of 1 to 60'],
    ["under an id that is none", { ...FINE, worker: "../x" }, 'worker: "../x" is not a worker\'s id'],
    ["under the id of nobody", { ...FINE, worker: "unknown" }, 'worker: must not be "unknown"'],
    ["under an id of a server's own", { ...FINE, worker: "local~1" }, 'worker: must not begin with "local~"'],
    ["without capacity", { ...FINE, capacity: 0 }, "capacity: 0 is not a whole number from 1"],
    ["with half a capacity", { ...FINE, capacity: 1.5 }, "capacity: 1.5 is not a whole number from 1"],
    ["without handlers", { ...FINE, handlers: "w.a" }, 'handlers: "w.a" is not a list'],
    [
      "for a handler that cannot be",
      { ...FINE, handlers: [{ use: "~other" }] },
      'handlers[0].use: "~other" is not',
    ],
    [
      "with a handler's unknown field",
      { ...FINE, handlers: [{ use: "a", x: 1 }] },
      "handlers[0].x: a handler has",
    ],
    ["with topics that are none", { ...FINE, topics: [""] }, 'topics: [""] is not a list of names'],
  ])("one %s", (_what, body, message) => {
    expect(refusal(body)).toContain(message);
  });
});

describe("its own address", () => {
  const LOOPBACK = [
    "http://127.0.0.1:9000",
    "http://localhost:9000/status",
    "http://[::1]:9000",
    "http://127.8.8.8:1",
  ];

  test.each(LOOPBACK)("may be %s for one that comes from there", (url) => {
    for (const peer of ["127.0.0.1", "::ffff:127.0.0.1", "::1", null])
      expect(refusal({ ...FINE, url }, peer)).toBe("accepted");
  });

  test.each(LOOPBACK)("may not be %s for one that comes from elsewhere", (url) => {
    for (const peer of ["10.0.0.7", "fe80::1", "169.254.1.1"])
      expect(refusal({ ...FINE, url }, peer)).toContain(
        `names the server's own machine, but this request came from ${peer}`,
      );
  });

  test("may be where it comes from", () => {
    expect(refusal({ ...FINE, url: "https://10.0.0.7" })).toBe("accepted");
    expect(refusal({ ...FINE, url: "https://[fd00::7]:8080" }, "fd00::7")).toBe("accepted");
  });

  test.each([
    "http://10.0.0.8:9000",
    "http://0.0.0.0:9000",
    "http://169.254.169.254/latest",
    "http://internal.example",
    "http://10.0.0.7.example",
    "http://127.0.0.1.example",
    "http://user:pass@127.0.0.1",
    "http://127.0.0.1/?x=1",
    "file:///etc/passwd",
    "ftp://127.0.0.1",
    "127.0.0.1:9000",
    7,
  ])("may not be %s", (url) => {
    expect(refusal({ ...FINE, url })).toMatch(/^url: /);
  });

  test("of one that came by a unix socket is loopback only", () => {
    expect(refusal({ ...FINE, url: "http://10.0.0.7" }, null)).toMatch(/^url: /);
    expect(refusal({ ...FINE, url: "http://127.0.0.1:1" }, null)).toBe("accepted");
  });
});

test("topics that begin like names of Rondo or RabbitMQ are refused", () => {
  for (const topic of ["rondo.dead", "amq.direct"])
    expect(checkRegistration({ ...FINE, topics: [topic] }, null)).toMatchObject({ path: "topics" });
});
