/** What is shown of settings: the URLs of stores and brokers carry passwords, which are nobody's to read. */

/** A URL with its password written as `(secret)`. */
export function withoutPassword(url: string): string {
  return url.replace(/^([a-z][a-z0-9+.-]*:\/\/[^:/@]*):[^@/]*@/i, "$1:(secret)@");
}

/** Members that hold a secret by their name. */
const SECRET_NAME = /secret|token|password/i;

/** The same value, with the password of every URL in it, and every text that is a secret by its name, as `(secret)`. */
export function hidePasswords(value: unknown): unknown {
  if (typeof value === "string") return withoutPassword(value);
  if (Array.isArray(value)) return value.map(hidePasswords);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [
      key,
      typeof one === "string" && SECRET_NAME.test(key) ? "(secret)" : hidePasswords(one),
    ]),
  );
}
