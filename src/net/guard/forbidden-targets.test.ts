// Spellings of targets that users' data may not lead to. Nothing of this is resolved or connected to.
import { describe, expect, test } from "vitest";
import { isRejection, unwrap } from "../../std/rejection.ts";
import { AllowList } from "./allow-list.ts";
import { GuardedHttp } from "./guarded-http.ts";
import { parseTarget } from "./target.ts";

/** By the reason that is given. */
const FORBIDDEN: Readonly<Record<string, readonly string[]>> = {
  loopback: [
    "http://127.0.0.1/",
    "http://127.0.0.1:8080/",
    "https://127.0.0.1",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.255.255.254/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7F.0x0.0x0.0x1/",
    "http://0177.0.0.1/",
    "http://0177.0.0.01/",
    "http://0x7f.1/",
    "http://127.0.0.1./",
    "http://127.00.000.1/",
    "HTTP://127.0.0.1/",
    "http:127.0.0.1/",
    "http:\\\\127.0.0.1\\x",
    "http:///127.0.0.1/",
    " http://127.0.0.1/",
    "ht\ntp://127.0.\t0.1/",
    "http://%31%32%37.0.0.1/",
    "http://１２７.０.０.１/",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://127｡0｡0｡1/",
    "http://[::1]/",
    "http://[::1]:443/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[0000:0000:0000:0000:0000:0000:0000:0001]/",
    "http://[::0.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::FFFF:7f00:1]/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/",
  ],
  "an unspecified address": [
    "http://0.0.0.0/",
    "http://0/",
    "http://0x0/",
    "http://00/",
    "http://0.1.2.3/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:0]/",
    "http://[::ffff:0.0.0.0]/",
  ],
  "a private network": [
    "http://10.0.0.1/",
    "http://10.1/",
    "http://167772161/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://0xac100001/",
    "http://192.168.0.1/",
    "http://192.168.257/",
    "http://0300.0250.0.1/",
    "http://[::ffff:10.0.0.1]/",
    "http://[fc00::1]/",
    "http://[fd12:3456:789a::1]/",
  ],
  "link-local": [
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://169.254.170.2/",
    "http://[fe80::1]/",
    "http://[febf::1]/",
  ],
  "a cloud's metadata service": [
    "http://[fd00:ec2::254]/",
    "http://[fd20:ce::254]/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
  ],
  "a carrier's shared network": ["http://100.64.0.1/", "http://100.127.255.255/"],
  "a network for benchmarks": ["http://198.18.0.1/", "http://198.19.255.255/"],
  "an address for documentation": [
    "http://192.0.2.1/",
    "http://198.51.100.7/",
    "http://203.0.113.9/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
  ],
  reserved: ["http://192.0.0.8/", "http://240.0.0.1/", "http://[2001:10::1]/"],
  "the broadcast address": ["http://255.255.255.255/", "http://4294967295/"],
  multicast: ["http://224.0.0.1/", "http://239.255.255.250/", "http://[ff02::1]/"],
  "an IPv4-compatible address": ["http://[::127.0.0.1]/", "http://[::a9fe:a9fe]/"],
  "an IPv4 address translated to IPv6": ["http://[::ffff:0:127.0.0.1]/"],
  "an IPv4 address behind NAT64": ["http://[64:ff9b::7f00:1]/", "http://[64:ff9b:1::a9fe:a9fe]/"],
  "a 6to4 tunnel": ["http://[2002:7f00:1::]/"],
  "a relay of 6to4": ["http://192.88.99.1/"],
  "a Teredo tunnel": ["http://[2001:0:7f00:1::]/"],
  "site-local": ["http://[fec0::1]/"],
  "the discard network": ["http://[100::1]/"],
  "not a public address": ["http://[4000::1]/", "http://[5f00::1]/", "http://[1::1]/"],
  "a name of an internal network": [
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://localhost../",
    "http://ｌｏｃａｌｈｏｓｔ/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "http://loc%61lhost/",
    "http://a.localhost/",
    "http://localhost.localdomain/",
    "http://lxi-ui-api:6001/broadcast",
    "http://metadata/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://metadata.google.internal./",
    "http://printer.local/",
    "http://kubernetes.default.svc.cluster.local/",
    "http://nas.lan/",
    "http://router.home.arpa/",
    "http://1.0.0.127.in-addr.arpa/",
  ],
  "has a user or password": [
    "http://user@example.com/",
    "http://example.com@127.0.0.1/",
    "http://:secret@example.com/",
    "http://example.com:80@127.0.0.1:443/",
  ],
  "is not http or https": [
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_INFO",
    "data:text/plain,x",
    "javascript:alert(1)",
    "ws://example.com/",
    "unix:/var/run/docker.sock",
    "dict://127.0.0.1:11211/stat",
  ],
  "is not a URL": [
    "",
    "example.com",
    "//127.0.0.1/",
    "http://",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[::1/",
    "http://256.256.256.256/",
    "http://1.2.3.4.5/",
    "http://127.0.0.1:99999/",
    "http://exam ple.com/",
    "http://example.com%00.evil.com/",
    "http://0x1ffffffff/",
  ],
  "is not one of 80, 443, 8080, 8443": [
    "http://example.com:22/",
    "http://example.com:25/",
    "http://93.184.215.14:6379/",
    "https://example.com:5432/",
    "http://[2606:4700:4700::1111]:11211/",
    "http://example.com:1/",
  ],
};

const cases = Object.entries(FORBIDDEN).flatMap(([why, urls]) => urls.map((url) => [url, why] as const));

describe("a forbidden target", () => {
  test("has many spellings", () => {
    expect(new Set(cases.map(([url]) => url)).size).toBe(cases.length);
    expect(cases.length).toBeGreaterThanOrEqual(120);
  });

  test.each(cases)("%j is refused: %s", async (url, why) => {
    const guard = new GuardedHttp({
      allow: AllowList.empty,
      lookup: () => Promise.reject(new Error("it was resolved")),
      dial: () => Promise.reject(new Error("it was connected to")),
    });
    const refusal = await guard.send({ method: "POST", url, body: "{}" });
    expect(refusal).toMatchObject({ kind: "rejection", code: "forbidden", hint: expect.any(String) });
    expect((refusal as { message: string }).message).toContain(why);
    expect(guard.refusalOf(url)).toEqual(refusal);
  });
});

describe("a target that is fine", () => {
  test.each([
    ["https://example.com/hook?a=1#x", { host: "example.com", port: 443, path: "/hook?a=1", isSecure: true }],
    ["http://example.com.:8080", { host: "example.com", port: 8080, path: "/" }],
    ["http://Bücher.example.com/", { host: "xn--bcher-kva.example.com" }],
    ["http://93.184.215.14/", { host: "93.184.215.14" }],
    ["http://[2606:4700:4700::1111]:8443/", { host: "2606:4700:4700::1111", port: 8443 }],
    ["http://172.15.255.255/", {}],
    ["http://172.32.0.1/", {}],
    ["http://100.63.255.255/", {}],
    ["http://100.128.0.1/", {}],
    ["http://128.0.0.1/", {}],
    ["http://223.255.255.255/", {}],
    ["http://local.example.com/", {}],
    ["http://[::ffff:93.184.215.14]/", {}],
  ])("%s", (url, expected) => {
    expect(unwrap(parseTarget(url, AllowList.empty))).toMatchObject(expected);
  });

  test("a URL that is too long is not", () => {
    const refusal = parseTarget(`https://example.com/${"x".repeat(2_048)}`, AllowList.empty);
    expect(refusal).toMatchObject({ message: expect.stringContaining("longer than 2048") });
  });
});

describe("the operator's list opens", () => {
  const listed = (...entries: string[]) => unwrap(AllowList.parse(entries));
  const isOpen = (url: string, ...entries: string[]) => !isRejection(parseTarget(url, listed(...entries)));

  test("a host at one port", () => {
    expect(isOpen("http://lxi-ui-api:6001/broadcast", "lxi-ui-api:6001")).toBe(true);
    expect(isOpen("http://LXI-UI-API.:6001/", "lxi-ui-api:6001")).toBe(true);
    expect(isOpen("http://lxi-ui-api:6002/", "lxi-ui-api:6001")).toBe(false);
    expect(isOpen("http://lxi-ui-api/", "lxi-ui-api:6001")).toBe(false);
    expect(isOpen("http://x.lxi-ui-api:6001/", "lxi-ui-api:6001")).toBe(false);
  });

  test("a host at the usual ports, if it names none", () => {
    expect(isOpen("http://lxi-ui-api/", "LXI-ui-api")).toBe(true);
    expect(isOpen("http://lxi-ui-api:8443/", "lxi-ui-api")).toBe(true);
    expect(isOpen("http://lxi-ui-api:6001/", "lxi-ui-api")).toBe(false);
  });

  test("addresses and ranges, however the URL spells them", () => {
    expect(isOpen("http://0x7f.1:9000/", "127.0.0.1:9000")).toBe(true);
    expect(isOpen("http://[::ffff:127.0.0.1]:9000/", "127.0.0.1:9000")).toBe(true);
    expect(isOpen("http://127.0.0.1:9000/", "127.1:9000")).toBe(true);
    expect(isOpen("http://127.0.0.2:9000/", "127.0.0.1:9000")).toBe(false);
    expect(isOpen("http://10.9.8.7/", "10.0.0.0/8")).toBe(true);
    expect(isOpen("http://11.9.8.7:81/", "10.0.0.0/8")).toBe(false);
    expect(isOpen("http://10.9.8.7:81/", "10.0.0.0/8")).toBe(false);
    expect(isOpen("http://10.9.8.7:81/", "10.0.0.0/8:81")).toBe(true);
    expect(isOpen("http://[fd00::5]/", "fd00::/8")).toBe(true);
    expect(isOpen("http://[fd00::5]:81/", "[fd00::]/8:81")).toBe(true);
    expect(isOpen("http://[::1]:9000/", "[::1]:9000")).toBe(true);
    expect(isOpen("http://[::1]/", "::1")).toBe(true);
    expect(isOpen("http://169.254.169.254/", "169.254.169.254")).toBe(true);
  });

  test("neither schemes nor users", () => {
    expect(isOpen("ftp://lxi-ui-api/", "lxi-ui-api")).toBe(false);
    expect(isOpen("http://a@lxi-ui-api/", "lxi-ui-api")).toBe(false);
  });

  test.each([
    "",
    "http://a",
    "a/b",
    "a:0",
    "a:70000",
    "a b",
    "*.example.com",
    "a@b",
    "10.0.0.0/33",
    "fe80::1%eth0/x",
    "[::1",
    ":80",
  ])("nothing by %j, which is no target", (entry) => {
    expect(AllowList.parse(["ok", entry])).toMatchObject({
      code: "invalid_input",
      path: "allowTargets[1]",
      hint: expect.stringContaining("lxi-ui-api:6001"),
    });
  });
});

test("a listed range of IPv6 addresses opens no IPv4 address", () => {
  const allow = unwrap(AllowList.parse(["::/0"]));
  expect(isRejection(parseTarget("http://[::1]/", allow))).toBe(false);
  expect(isRejection(parseTarget("http://127.0.0.1/", allow))).toBe(true);
  expect(isRejection(parseTarget("http://[::ffff:127.0.0.1]/", allow))).toBe(true);
});
