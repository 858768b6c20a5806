import { expect, test } from "vitest";
import { isRejection, unwrap } from "../../std/rejection.ts";
import { WebhookSecrets } from "./webhook-secrets.ts";

const OWN = "a-secret-of-its-own";
const message = { id: "m1", at: 0, body: "{}" };
const signature = (secrets: WebhookSecrets, url: string) =>
  secrets.headersFor(new URL(url).hostname, message)["webhook-signature"];

test.each([
  ["UI.Example.com", "https://ui.example.com/"],
  ["ui.example.com", "https://ui.example.com./"],
  ["ui.example.com.", "https://ui.example.com:8443/"],
  ["büro.example.com", "https://b%C3%BCro.example.com/"],
  ["xn--bro-hoa.example.com", "https://BÜRO.example.com/"],
  ["10.0.0.1", "http://0xa000001/"],
  ["[fd00::1]", "http://[FD00:0::1]:8080/"],
])("the secrets of %s are those of %s", (host, url) => {
  const own = unwrap(WebhookSecrets.parse({ [host]: [OWN], "*": ["the-secret-of-the-others"] }));
  const all = unwrap(WebhookSecrets.parse([OWN]));
  expect(signature(own, url)).toBe(signature(all, url));
  expect(signature(own, "https://other.example.com/")).not.toBe(signature(all, url));
});

test.each([
  "ui.example.com:8443",
  "https://ui.example.com",
  "ui.example.com/x",
  "a b",
  "u@ui.example.com",
  "",
])("%j is not a host, and is refused rather than never used", (host) => {
  const refused = WebhookSecrets.parse({ [host]: [OWN] });
  expect(isRejection(refused) && refused.message).toContain("is not a host");
});
