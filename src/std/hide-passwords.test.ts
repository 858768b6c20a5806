import { expect, test } from "vitest";
import { hidePasswords } from "./hide-passwords.ts";

test("the password of a URL is hidden, wherever it is, and so is what is a secret by its name; all else stays", () => {
  expect(hidePasswords("postgres://rondo:p:w@db:5432/x")).toBe("postgres://rondo:(secret)@db:5432/x");
  expect(hidePasswords({ a: ["amqp://u:p@h", 1, null], b: "file:.rondo" })).toEqual({
    a: ["amqp://u:(secret)@h", 1, null],
    b: "file:.rondo",
  });
  expect(hidePasswords({ s: { kind: "http", url: "http://h", token: "t0ken" } })).toEqual({
    s: { kind: "http", url: "http://h", token: "(secret)" },
  });
  expect(hidePasswords("http://host:80/a:b@c")).toBe("http://host:80/a:b@c");
  expect(hidePasswords("redis://:p@h")).toBe("redis://:(secret)@h");
  // An "@" in a password should be written as %40, but users also write it unescaped.
  expect(hidePasswords("postgres://rondo:p@ss@db/x")).toBe("postgres://rondo:(secret)@db/x");
  expect(hidePasswords("postgres://db/x?user=u&password=pw&sslmode=require")).toBe(
    "postgres://db/x?user=u&password=(secret)&sslmode=require",
  );
  expect(hidePasswords("http://u:p@a:1,http://u:q@b:2")).toBe("http://u:(secret)@a:1,http://u:(secret)@b:2");
});
