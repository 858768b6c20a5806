// What `connect` is given wrongly is refused when it is called, with what to write instead.
import { RondoError, workflow } from "rondo";
import { connect } from "rondo/client";
import { describe, expect, test } from "vitest";

const URL_1 = "http://127.0.0.1:7777";

/** The error that is thrown. */
function refusal(call: () => unknown): RondoError {
  try {
    call();
  } catch (thrown) {
    if (thrown instanceof RondoError) return thrown;
    throw thrown;
  }
  throw new Error("nothing was refused");
}

describe("connect refuses", () => {
  const cases: [what: string, options: unknown, message: string][] = [
    ["nothing", undefined, "connect takes an object of options"],
    ["a text", URL_1, "connect takes an object of options"],
    ["no address", {}, "connect needs the address of a server"],
    ["a list as its address", { url: [URL_1] }, '] is not one address (connect({ url: "http://'],
    ["an address as its list", { urls: URL_1 }, "is not a list of addresses"],
    ["a list of something else", { urls: [7777] }, "urls: [7777] is not a list of addresses"],
    ["what is no address", { url: "localhost" }, '"localhost" is not an http or https address of a server'],
    [
      "an address of another kind",
      { url: "ftp://host" },
      '"ftp://host" is not an http or https address of a server',
    ],
    [
      "two addresses in one text",
      { url: `${URL_1},${URL_1}` },
      "is not an http or https address of a server",
    ],
    ["a token that is a number", { url: URL_1, token: 5 }, "token: this is not a text"],
    ["a fetch that is none", { url: URL_1, fetch: "fetch" }, 'fetch: "fetch" is not a function'],
    ["a time as a text", { url: URL_1, reconnectMs: "5s" }, 'reconnectMs: "5s" is not a whole number'],
    [
      "a misspelt option",
      { url: URL_1, tokn: "t" },
      'tokn: connect has no such field (did you mean "token"? known are: url, urls',
    ],
  ];
  test.each(cases)("%s", (_what, options, message) => {
    const error = refusal(() => connect(options as never));
    expect(error.message).toContain(message);
    expect(error.hint).toBeTruthy();
  });

  test("a token with a line's end, and does not show it", () => {
    const error = refusal(() => connect({ url: URL_1, token: "rondo_secret\n" }));
    expect(error.message).toContain("token: this is not a text");
    expect(error.message).not.toContain("rondo_secret");
  });
});

describe("a start is refused before anything is sent", () => {
  const client = connect({
    url: URL_1,
    fetch: () => {
      throw new Error("something was sent");
    },
  });
  const mine = workflow({ name: "mine" }).sleep("nap", 1);
  const cases: [what: string, start: () => Promise<unknown>, message: string][] = [
    ["of nothing", () => client.start(undefined as never, {} as never), "this is not a workflow"],
    ["of a function", () => client.start((() => mine) as never, {} as never), "this is not a workflow"],
    [
      "with options that are none",
      () => client.start(mine, {}, null as never),
      "options: null is not an object",
    ],
    [
      "with a misspelt option",
      () => client.run(mine, {}, { idd: "a" } as never),
      "idd: a start has no such field",
    ],
    [
      "at a time that is none",
      () => client.start(mine, {}, { startAt: new Date("tomorrow") }),
      "startAt: null is not a time",
    ],
  ];
  test.each(cases)("%s", async (_what, start, message) => {
    await expect(start()).rejects.toThrow(message);
    await expect(start()).rejects.toBeInstanceOf(RondoError);
  });
});

test("a server that answers with a page is told as no server of Rondo", async () => {
  const page = {
    status: 200,
    headers: { get: () => null },
    body: null,
    text: async () => "<!doctype html>",
  };
  const client = connect({ url: URL_1, fetch: async () => page });
  await expect(client.execution("e1").describe()).rejects.toMatchObject({
    name: "RondoError",
    code: "not_ready",
    message: expect.stringContaining("http://127.0.0.1:7777 did not answer as a Rondo server does"),
  });
});
