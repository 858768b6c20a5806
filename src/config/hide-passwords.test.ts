import { expect, test } from "vitest";
import { hidePasswords } from "./hide-passwords.ts";

test("the password of a URL is hidden, wherever it is; all else stays", () => {
  expect(hidePasswords("postgres://rondo:p:w@db:5432/x")).toBe("postgres://rondo:(secret)@db:5432/x");
  expect(hidePasswords({ a: ["amqp://u:p@h", 1, null], b: "file:.rondo" })).toEqual({
    a: ["amqp://u:(secret)@h", 1, null],
    b: "file:.rondo",
  });
  expect(hidePasswords("http://host:80/a:b@c")).toBe("http://host:80/a:b@c");
});
